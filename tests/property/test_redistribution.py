"""Laws of the redistribution of operator state."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.state.declaration import OperatorListState
from mainstay.state.operator import OperatorList, to_units, values_in
from mainstay.state.redistribution import redistribute
from tests.searching import examples

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


@settings(deadline=None, max_examples=examples(50))
@given(olds, parallelisms)
def test_split_keeps_every_element_once_and_in_order(old, parallelism):
    new = moved(old, parallelism, "split")
    for name in {name for subtask in old for name in subtask}:
        assert joined(new, name) == joined(old, name)


@settings(deadline=None, max_examples=examples(50))
@given(olds, parallelisms)
def test_split_loads_the_subtasks_evenly_over_all_states(old, parallelism):
    if parallelism == len(old):
        parallelism += 1
    loads = [
        sum(len(elements) for elements in subtask.values())
        for subtask in moved(old, parallelism, "split")
    ]
    assert max(loads) - min(loads) <= 1


@settings(deadline=None, max_examples=examples(50))
@given(olds, parallelisms)
def test_union_gives_all_elements_to_all(old, parallelism):
    for subtask in moved(old, parallelism, "union"):
        for name, elements in subtask.items():
            assert elements == joined(old, name)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.text(max_size=3), max_size=6), olds, parallelisms)
def test_broadcast_gives_each_a_copy_whoever_had_none(elements, old, parallelism):
    copies = [{name: [] if subtask[name] else elements for name in subtask} for subtask in old]
    for subtask in moved(copies, parallelism, "broadcast"):
        for name, copied in subtask.items():
            assert copied == (elements if elements in [c.get(name) for c in copies] else [])


@settings(deadline=None, max_examples=examples(50))
@given(olds, parallelisms)
def test_a_second_restore_at_the_same_parallelism_moves_nothing(old, parallelism):
    once = moved(old, parallelism, "split")
    assert moved(once, parallelism, "split") == once


def restarted(own: list[list[str]], parallelism: int) -> list[OperatorList]:
    """The lists of new subtasks, from what the old ones had of their own."""
    info = OperatorListState("string", redistribute="union").info()
    stored = [{"a": to_units(info, each)} for each in own]
    lists = []
    for units in redistribute(stored, parallelism):
        lists.append(OperatorList(info))
        lists[-1].restore(units["a"])
    return lists


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.lists(st.text(max_size=3), max_size=6), min_size=1, max_size=5),
    st.lists(st.tuples(parallelisms, st.lists(st.text(max_size=3), max_size=2)), max_size=5),
)
def test_an_element_of_a_union_exists_once_however_often_and_wide_it_is_restored(own, restarts):
    expected = Counter(element for each in own for element in each)
    for parallelism, added in restarts:
        lists = restarted(own, parallelism)
        for each in lists:
            assert each.get() == [element for part in own for element in part]
        lists[0].extend(added)
        expected.update(added)
        own = [each.copy_units() for each in lists]
        assert Counter(element for each in own for element in each) == expected


@settings(deadline=None, max_examples=examples(50))
@given(
    st.lists(st.lists(st.text(max_size=3), max_size=6), min_size=1, max_size=5),
    parallelisms,
)
def test_a_union_in_which_each_subtask_keeps_what_is_its_own_loses_nothing(own, parallelism):
    everything = sorted(element for each in own for element in each)
    lists = restarted(own, parallelism)
    for number, each in enumerate(lists):
        # Whose an element is has nothing to do with who had it in its share.
        each.update([e for e in each.get() if len(e) % parallelism == number])
        assert each.get() == each.copy_units()
    assert sorted(element for each in lists for element in each.copy_units()) == everything


def test_what_is_added_to_a_union_comes_behind_what_was_restored():
    first, second = restarted([["a"], ["b"]], 2)
    first.add("c")
    assert first.get() == ["a", "b", "c"]
    assert first.copy_units() == ["a", "c"]
    second.clear()
    assert second.get() == second.copy_units() == []


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.text(max_size=3), max_size=6), parallelisms, st.lists(parallelisms, max_size=5))
def test_a_broadcast_list_is_the_same_however_often_and_wide_it_is_restored(
    elements, parallelism, restarts
):
    info = OperatorListState("string", redistribute="broadcast").info()
    copies = [{"a": to_units(info, elements)}] * parallelism
    for new in restarts:
        copies = redistribute(copies, new)
        assert [values_in(info, each["a"]) for each in copies] == [elements] * new
