"""Laws of the redistribution of operator state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.state.declaration import OperatorListState
from mainstay.state.operator import to_units, values_in
from mainstay.state.redistribution import redistribute

Lists = list[dict[str, list[str]]]

names = st.sampled_from(["a", "b", "c"])
subtasks = st.dictionaries(names, st.lists(st.text(max_size=3), max_size=6), max_size=3)
olds = st.lists(subtasks, min_size=1, max_size=6)
parallelisms = st.integers(1, 9)


def moved(old: Lists, parallelism: int, mode: str) -> Lists:
    info = OperatorListState("string", redistribute=mode).info()
    stored = [{name: to_units(info, each) for name, each in subtask.items()} for subtask in old]
    new = redistribute(stored, parallelism)
    return [{name: values_in(info, each) for name, each in subtask.items()} for subtask in new]


def joined(lists: Lists, name: str) -> list[str]:
    return [element for subtask in lists for element in subtask.get(name, [])]


@settings(deadline=None, max_examples=50)
@given(olds, parallelisms)
def test_split_keeps_every_element_once_and_in_order(old, parallelism):
    new = moved(old, parallelism, "split")
    for name in {name for subtask in old for name in subtask}:
        assert joined(new, name) == joined(old, name)


@settings(deadline=None, max_examples=50)
@given(olds, parallelisms)
def test_split_loads_the_subtasks_evenly_over_all_states(old, parallelism):
    if parallelism == len(old):
        parallelism += 1
    loads = [
        sum(len(elements) for elements in subtask.values())
        for subtask in moved(old, parallelism, "split")
    ]
    assert max(loads) - min(loads) <= 1


@settings(deadline=None, max_examples=50)
@given(olds, parallelisms)
def test_union_gives_all_elements_to_all(old, parallelism):
    for subtask in moved(old, parallelism, "union"):
        for name, elements in subtask.items():
            assert elements == joined(old, name)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=3), max_size=6), olds, parallelisms)
def test_broadcast_gives_each_a_copy_whoever_had_none(elements, old, parallelism):
    copies = [{name: [] if subtask[name] else elements for name in subtask} for subtask in old]
    for subtask in moved(copies, parallelism, "broadcast"):
        for name, copied in subtask.items():
            assert copied == (elements if elements in [c.get(name) for c in copies] else [])


@settings(deadline=None, max_examples=50)
@given(olds, parallelisms)
def test_a_second_restore_at_the_same_parallelism_moves_nothing(old, parallelism):
    once = moved(old, parallelism, "split")
    assert moved(once, parallelism, "split") == once
