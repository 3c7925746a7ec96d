"""How far operators have fired, through rescales and through the ends of their input."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.fired import NEVER, FiredTimes
from mainstay.runtime.own_states import ENDED, FIRED
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.operator import OperatorList, to_units

GROUPS = 8
Runs = Sequence[tuple[int, int, int]]


def context(first: int, last: int, fired: Runs = (), ended: Runs = (), own: Any = None) -> Any:
    """A subtask with some key-groups, and what a restore shows it of all of them."""
    lists = {}
    for info, runs in ((FIRED, fired), (ENDED, ended)):
        lists[info.name] = OperatorList(info)
        units = to_units(info, runs)
        share = (0, 0) if own is None else own
        lists[info.name].restore(OperatorUnits("union", units.count, units.data, own=share))
    groups = KeyGroupRange(first, last)
    return SimpleNamespace(groups=groups, max_parallelism=GROUPS, lists=lists)


def stored(place: Any, info: Any) -> list[tuple[Any, ...]]:
    """What a subtask has in the next snapshot, of what is its own."""
    return [tuple(run) for run in place.lists[info.name].copy_units()]


def test_a_subtask_stores_what_was_restored_for_its_key_groups() -> None:
    """What a rescale has given to it may be of others, and they store their own."""
    place = context(0, 3, fired=[(0, 3, 5), (4, 7, 9)], own=(1, 1))
    FiredTimes(place).store()
    assert stored(place, FIRED) == [(0, 3, 5)]


@pytest.mark.parametrize(
    ("ended", "begins"),
    [
        ([(0, 3, 20), (4, 7, 12)], 20),
        ([(4, 7, 12), (0, 3, 20)], 20),
        ([(0, 2, 12), (3, 5, 20), (6, 7, NEVER)], 20),
        ([(0, 7, 3)], 5),  # further than that before
        ([(0, 3, 20)], 5),  # the others have not ended
        ([(0, 2, 20), (4, 7, 12)], 5),
        ([], 5),
    ],
)
def test_all_begin_where_the_furthest_has_ended_once_all_have(ended: Runs, begins: int) -> None:
    for first, last in ((0, 1), (2, 7)):
        place = context(first, last, fired=[(0, 7, 5)], ended=ended)
        times = EndingTimes(place)
        assert (times.lowest, times.highest) == (begins, begins)
        times.store()
        assert stored(place, FIRED) == [(first, last, begins)]
        assert stored(place, ENDED) == []


def test_the_end_of_a_subtask_is_noted_with_its_key_groups() -> None:
    place = context(2, 5)
    times = EndingTimes(place)
    times.advance(7)
    times.ended()
    assert stored(place, ENDED) == [(2, 5, 7)]
