"""The index of timers by time."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mainstay.state.freezing import NAN
from mainstay.state.timer_index import SPARE_TIMES, TimerIndex


def polled(index: TimerIndex) -> list[tuple[int, Any]]:
    found = []
    while (at := index.first()) is not None:
        found.append((at, index.poll()))
    return found


def test_timers_come_in_the_order_of_time_and_of_one_time_in_the_order_they_came() -> None:
    index = TimerIndex()
    for at, key in [(5, "a"), (3, "b"), (5, "c"), (4, "a"), (5, "b")]:
        assert index.add(at, key)
    assert index.count == 5
    assert polled(index) == [(3, "b"), (4, "a"), (5, "a"), (5, "c"), (5, "b")]
    assert index.count == 0
    assert index.first() is None


def test_the_same_timer_again_adds_nothing() -> None:
    index = TimerIndex()
    assert index.add(1, "a")
    assert not index.add(1, "a")
    assert index.add(1, "b")
    assert not index.add(1, "a")
    assert not index.add(1, "b")
    assert polled(index) == [(1, "a"), (1, "b")]


@pytest.mark.parametrize("keys", [("a", "b"), (None, 1), (("x", 1), ("x", 2)), (NAN, 0.0)])
def test_any_key_can_wait_alone_and_with_others(keys: tuple[Any, Any]) -> None:
    index = TimerIndex()
    one, other = keys
    assert index.add(1, one)
    assert not index.add(1, one)
    assert not index.remove(1, other)
    assert index.remove(1, one)
    assert index.first() is None
    index.add(1, one)
    index.add(1, other)
    assert index.remove(1, one)
    assert not index.remove(1, one)
    assert [at for at, _ in polled(index)] == [1]


def test_removing_says_whether_there_was_one() -> None:
    index = TimerIndex()
    index.fill([(2, "a"), (1, "a"), (2, "b"), (3, "a")])
    assert not index.remove(4, "a")
    assert not index.remove(1, "b")
    assert index.remove(1, "a")  # the first
    assert index.remove(3, "a")  # the last
    assert index.remove(2, "a")
    assert polled(index) == [(2, "b")]


def test_a_time_that_was_removed_may_be_waited_for_again() -> None:
    index = TimerIndex()
    for _ in range(3):
        index.add(7, "a")
        index.remove(7, "a")
    index.add(7, "b")
    assert polled(index) == [(7, "b")]


def test_what_is_added_to_the_time_that_is_being_polled_comes_too() -> None:
    index = TimerIndex()
    index.fill([(1, key) for key in "abc"])
    assert index.poll() == "a"
    index.remove(1, "b")
    index.add(1, "a")
    index.add(1, "d")
    assert polled(index) == [(1, "c"), (1, "a"), (1, "d")]


def test_replaced_times_do_not_gather() -> None:
    index = TimerIndex()
    index.add(0, "a")
    for at in range(1, 10_000):
        index.remove(at - 1, "a")
        index.add(at, "a")
    assert len(index._heap) <= 2 + SPARE_TIMES + 1
    assert polled(index) == [(9_999, "a")]


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_a_set_that_is_sorted(seed: int) -> None:
    random, index, model = Random(seed), TimerIndex(), set[tuple[int, int]]()
    for _ in range(2_000):
        timer = random.randrange(30), random.randrange(8)
        match random.randrange(4):
            case 0 | 1:
                assert index.add(*timer) == (timer not in model)
                model.add(timer)
            case 2:
                assert index.remove(*timer) == (timer in model)
                model.discard(timer)
            case _ if model:
                at = index.first()
                assert at == min(model)[0]
                polled_timer = at, index.poll()
                assert polled_timer in model
                model.discard(polled_timer)
        assert index.count == len(model)
    assert sorted(polled(index)) == sorted(model)
