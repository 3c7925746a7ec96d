"""Redistribution of operator state: nothing lost, nothing doubled, evenly dealt."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.declaration import OperatorListState
from mainstay.state.operator import decode_units, to_units, values_in
from mainstay.state.redistribution import redistribute


def units(mode: str, *elements: int) -> OperatorUnits:
    return to_units(OperatorListState("long", redistribute=mode).info(), elements)


def elements(stored: OperatorUnits) -> list[int]:
    found = values_in(OperatorListState("long", redistribute=stored.mode).info(), stored)
    assert len(found) == stored.count
    return found


def dealt(old: list[dict[str, OperatorUnits]], parallelism: int) -> list[dict[str, list[int]]]:
    new = redistribute(old, parallelism)
    assert len(new) == parallelism
    return [{name: elements(stored) for name, stored in subtask.items()} for subtask in new]


def states(mode: str, *lists: list[int]) -> list[dict[str, OperatorUnits]]:
    return [{"offsets": units(mode, *each)} for each in lists]


def lists_of(new: list[dict[str, list[int]]]) -> list[list[int]]:
    return [subtask["offsets"] for subtask in new]


def test_split_deals_out_contiguous_runs_in_order():
    assert lists_of(dealt(states("split", [1, 2, 3], [4, 5]), 3)) == [[1, 2], [3, 4], [5]]
    assert lists_of(dealt(states("split", [1, 2, 3], [4, 5]), 1)) == [[1, 2, 3, 4, 5]]
    assert lists_of(dealt(states("split", [1], []), 3)) == [[1], [], []]
    assert lists_of(dealt(states("split", [], []), 3)) == [[], [], []]


def test_the_next_state_starts_where_the_last_one_ended():
    old = [{name: units("split", number) for number, name in enumerate("abcd")}]
    new = dealt(old, 4)
    assert [sum(len(each) for each in subtask.values()) for subtask in new] == [1, 1, 1, 1]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_an_unchanged_parallelism_leaves_the_assignment_untouched(parallelism):
    lists = [list(range(number * 3)) for number in range(parallelism)]
    old = states("split", *lists)
    assert redistribute(old, parallelism) == old


def test_union_gives_everything_to_everyone():
    for parallelism in (1, 2, 4):
        new = dealt(states("union", [1, 2], [], [3]), parallelism)
        assert lists_of(new) == [[1, 2, 3]] * parallelism


def test_broadcast_gives_everyone_one_full_copy():
    for parallelism in (1, 3, 7):
        new = dealt(states("broadcast", [1, 2], [1, 2], [1, 2]), parallelism)
        assert lists_of(new) == [[1, 2]] * parallelism


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_broadcast_gives_a_full_copy_also_when_an_old_subtask_had_none(empty):
    lists = [[1, 2], [1, 2], [1, 2]]
    lists[empty] = []
    for parallelism in (2, 3, 4):
        assert lists_of(dealt(states("broadcast", *lists), parallelism)) == [[1, 2]] * parallelism
    absent = states("broadcast", [1, 2], [1, 2])
    absent.insert(empty, {})
    assert lists_of(dealt(absent, 3)) == [[1, 2]] * 3


def test_a_state_that_only_some_subtasks_reported_is_not_lost():
    old = [{"offsets": units("split", 1, 2)}, {}]
    assert lists_of(dealt(old, 2)) == [[1], [2]]


def test_nothing_stored_gives_nothing():
    assert redistribute([{}, {}], 3) == [{}, {}, {}]
    assert redistribute([], 2) == [{}, {}]


def test_a_redistribution_that_is_unknown_is_refused():
    with pytest.raises(RestoreError, match="'offsets' has the unknown redistribution 'dealt'"):
        redistribute([{"offsets": OperatorUnits("dealt", 0, b"")}], 1)


def test_thousands_of_random_runs_lose_nothing_double_nothing_and_stay_even():
    chance = random.Random(20170817)
    made: dict[tuple[str, int, int], OperatorUnits] = {}

    def run_of(first: int, count: int) -> OperatorUnits:
        # Encoding is what takes the time here; runs of equal numbers are equal units.
        key = ("split", first, count)
        if key not in made:
            made[key] = units("split", *range(first, first + count))
        return made[key]

    for _ in range(2000):
        old_parallelism, parallelism = chance.randint(1, 9), chance.randint(1, 9)
        names = [f"state-{number}" for number in range(chance.randint(1, 4))]
        old: list[dict[str, OperatorUnits]] = [{} for _ in range(old_parallelism)]
        expected: Counter[Any] = Counter()
        for name in names:
            first = 0
            for subtask in old:
                count = chance.randrange(5)
                subtask[name] = run_of(first, count)
                expected.update((name, element) for element in range(first, first + count))
                first += count
        new = redistribute(old, parallelism)
        if parallelism == old_parallelism:
            assert new == old
            continue
        found = Counter(
            (name, element)
            for each in new
            for name in names
            if each[name].count
            for element in decode_units(each[name].data).to_pylist()
        )
        assert found == expected
        loads = [sum(each[name].count for name in names) for each in new]
        assert max(loads) - min(loads) <= 1
