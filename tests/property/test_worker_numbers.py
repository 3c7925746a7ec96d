"""Whatever hosts have: every number is given out once, to everybody, and always the same way."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from mainstay.runtime.coordinator.worker_numbers import hand_out


@st.composite
def holdings(draw: st.DrawFn) -> dict[int, tuple[int, ...]]:
    """Processes on a few hosts; those of a host have the same, or some have not looked."""
    workers = draw(st.integers(1, 9))
    sizes = st.lists(st.sampled_from([0, 0, 1, 7, 4096]), min_size=workers, max_size=workers)
    hosts = draw(st.lists(sizes.map(tuple) | st.just(()), min_size=1, max_size=4))
    return {process: draw(st.sampled_from(hosts)) for process in range(workers)}


def bytes_held(held: dict[int, tuple[int, ...]], process: int, worker: int) -> int:
    return held[process][worker] if held[process] else 0


@given(holdings())
def test_every_number_is_given_out_once_and_nobody_is_left_out(
    held: dict[int, tuple[int, ...]],
) -> None:
    found = hand_out(held)
    assert found.keys() == held.keys()
    assert sorted(found.values()) == sorted(held)


@given(holdings(), st.randoms(use_true_random=False))
def test_the_order_in_which_processes_come_in_does_not_matter(
    held: dict[int, tuple[int, ...]], order: random.Random
) -> None:
    processes = list(held)
    order.shuffle(processes)
    assert hand_out({process: held[process] for process in processes}) == hand_out(held)


@given(holdings())
def test_no_two_processes_would_both_have_more_of_each_others_state(
    held: dict[int, tuple[int, ...]],
) -> None:
    found = hand_out(held)
    for one, other in [(a, b) for a in held for b in held if a < b]:
        now = {bytes_held(held, one, found[one]), bytes_held(held, other, found[other])}
        then = {bytes_held(held, one, found[other]), bytes_held(held, other, found[one])}
        assert max(then) <= max(now)


@given(st.integers(1, 9).flatmap(lambda n: st.permutations(range(n))))
def test_where_every_host_has_one_worker_each_gets_its_own(order: list[int]) -> None:
    held = {
        process: tuple(100 * (worker == own) for worker in range(len(order)))
        for process, own in enumerate(order)
    }
    assert hand_out(held) == dict(enumerate(order))
