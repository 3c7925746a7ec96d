"""The contract of keyed state: what each kind of state does, whatever keeps it."""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar

import numpy as np
import pytest

from mainstay.errors import StateTypeError
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from tests.contract.keyed_states import EMPTY, Average, all_kinds, contents, fill, filled


class Distinct:
    """A mutable accumulator, changed in place; and one and the same object to begin with."""

    empty: ClassVar[list[Any]] = []

    def create(self) -> Any:
        return self.empty

    def add(self, accumulator: Any, value: Any) -> None:
        if value not in accumulator:
            accumulator.append(value)

    def result(self, accumulator: Any) -> int:
        return len(accumulator)


def test_nothing_is_stored_to_begin_with(open_backend):
    backend = open_backend(all_kinds())
    assert contents(backend, "a") == EMPTY
    assert not backend.states.by_page.contains("page")
    assert backend.states.by_page.get("page", 7) == 7


def test_clearing_leaves_nothing_behind(open_backend):
    backend = open_backend(all_kinds())
    states = backend.at("a")
    fill(states, 1)
    for name in EMPTY:
        getattr(states, name).clear()
    assert contents(backend, "a") == EMPTY
    assert all(backend.contents(name) == {} for name in EMPTY)


def test_keys_do_not_see_each_other(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("b"), 2)
    assert contents(backend, "a") == filled(1)
    assert contents(backend, "b") == filled(2)
    assert contents(backend, "c") == EMPTY
    for name in EMPTY:
        getattr(backend.at("a"), name).clear()
    assert contents(backend, "b") == filled(2)


def test_states_of_one_kind_do_not_see_each_other(open_backend):
    backend = open_backend({"one": ListState("long"), "two": ListState("long")})
    states = backend.at("a")
    states.one.add(1)
    states.two.add(2)
    states.one.add(3)
    assert (states.one.get(), states.two.get()) == ([1, 3], [2])


def test_updating_a_value_with_none_clears_it(open_backend):
    backend = open_backend({"value": ValueState("long")})
    state = backend.at("a").value
    state.update(5)
    assert state.get() == 5
    state.update(None)
    assert state.get() is None
    assert backend.contents("value") == {}


def test_a_falsy_value_is_a_value(open_backend):
    backend = open_backend({"n": ValueState("long"), "s": ValueState("string")})
    states = backend.at("a")
    states.n.update(0)
    states.s.update("")
    assert (states.n.get(), states.s.get()) == (0, "")


def test_a_list_keeps_the_order_of_its_elements(open_backend):
    state = open_backend({"items": ListState("long")}).at("a").items
    state.add(3)
    state.extend([1, 2])
    state.extend(n for n in (9, 8))
    assert state.get() == [3, 1, 2, 9, 8]
    state.update([7])
    state.add(6)
    assert state.get() == [7, 6]


@pytest.mark.parametrize("nothing", [[], (), None, iter(())])
def test_updating_a_list_with_nothing_clears_it(open_backend, nothing):
    backend = open_backend({"items": ListState("long")})
    state = backend.at("a").items
    state.add(1)
    state.update(nothing)
    assert state.get() == []
    assert backend.contents("items") == {}


def test_extending_a_list_by_nothing_does_nothing(open_backend):
    backend = open_backend({"items": ListState("long")})
    state = backend.at("a").items
    state.extend([])
    assert state.get() == []
    assert backend.freeze().segments == ()
    state.add(1)
    state.extend(())
    assert state.get() == [1]


def test_a_list_takes_an_array_of_numpy(open_backend):
    state = open_backend({"items": ListState("long")}).at("a").items
    state.update(np.array([1, 2]))
    state.extend(np.array([3]))
    assert state.get() == [1, 2, 3]
    assert {type(item) for item in state.get()} == {int}


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.add(None),
        lambda state: state.extend([2, None]),
        lambda state: state.update([2, None]),
        lambda state: state.extend([2, "x"]),
        lambda state: state.update([2, "x"]),
    ],
)
def test_a_list_that_refuses_an_element_is_left_as_it_was(open_backend, change):
    state = open_backend({"items": ListState("long")}).at("a").items
    state.add(1)
    with pytest.raises(StateTypeError, match="state 'items'"):
        change(state)
    assert state.get() == [1]


def test_an_undeclared_list_refuses_none_as_well(open_backend):
    state = open_backend({"items": ListState()}).at("a").items
    with pytest.raises(StateTypeError, match=r"state 'items': None .*leave the call out"):
        state.add(None)


@pytest.mark.parametrize("text", ["abc", b"abc", {"a": 1}])
def test_a_string_or_a_dict_is_no_list_of_elements(open_backend, text):
    state = open_backend({"items": ListState()}).at("a").items
    with pytest.raises(StateTypeError, match=r"state 'items': .*add\(\)"):
        state.extend(text)
    with pytest.raises(StateTypeError, match=r"state 'items': .*add\(\)"):
        state.update(text)
    state.add(text)
    assert state.get() == [text]


def test_a_map_is_read_and_written_entry_by_entry(open_backend):
    backend = open_backend({"by_page": MapState("string", "long")})
    state = backend.at("a").by_page
    state.put("x", 1)
    state.put("y", 2)
    state.put("x", 3)
    assert state.get("x") == 3
    assert state.contains("y")
    assert not state.contains("z")
    assert dict(state.items()) == {"x": 3, "y": 2}
    assert list(state.keys()) == ["x", "y"]
    assert list(state.values()) == [3, 2]
    state.remove("x")
    state.remove("never there")
    assert dict(state.items()) == {"y": 2}
    state.remove("y")
    assert backend.contents("by_page") == {}


def test_a_map_keeps_a_none_value_but_no_none_key(open_backend):
    state = open_backend({"by_page": MapState("string", "long")}).at("a").by_page
    state.put("x", None)
    assert state.contains("x")
    assert state.get("x", 5) is None
    assert dict(state.items()) == {"x": None}
    for call in (state.remove, state.contains, state.get, lambda key: state.put(key, 1)):
        with pytest.raises(StateTypeError, match="state 'by_page'"):
            call(None)


def test_a_loop_over_a_map_may_change_it(open_backend):
    state = open_backend({"by_page": MapState("long", "long")}).at("a").by_page
    for n in range(10):
        state.put(n, n)
    for key, value in state.items():
        if value % 2:
            state.remove(key)
        else:
            state.put(key + 100, value)
    assert sorted(state.keys()) == [0, 2, 4, 6, 8, 100, 102, 104, 106, 108]
    for key in state.keys():  # noqa: SIM118 - a state is no dict
        state.remove(key)
    assert list(state.values()) == []


def test_what_a_map_iterates_over_is_settled_at_the_call(open_backend):
    backend = open_backend({"by_page": MapState("long", "long")})
    state = backend.at("a").by_page
    state.put(1, 1)
    views = state.items(), state.keys(), state.values()
    state.put(2, 2)
    backend.at("b")
    assert [list(view) for view in views] == [[(1, 1)], [1], [1]]


def test_equal_keys_of_an_undeclared_map_are_one_entry_before_and_after_a_snapshot(open_backend):
    declared = {"by_page": MapState()}
    backend = open_backend(declared)
    state = backend.at("a").by_page
    state.put(1, "one")
    state.put("1", "text")
    state.put(math.nan, "nan")
    backend.snapshot()
    state.remove(True)
    state.put(0.0, "zero")
    state.remove(float("nan"))
    backend.snapshot()
    state.put(-0.0, "still zero")
    epoch = backend.snapshot()
    assert dict(state.items()) == {"1": "text", 0: "still zero"}
    assert backend.compact()
    assert open_backend.reopen(declared, epoch).contents("by_page") == backend.contents("by_page")
    merged = open_backend.reopen(declared, backend.snapshot())
    assert merged.contents("by_page") == backend.contents("by_page")


def test_an_undeclared_map_refuses_keys_it_could_not_compare(open_backend):
    state = open_backend({"by_page": MapState()}).at("a").by_page
    with pytest.raises(StateTypeError, match=r"state 'by_page': a map key: \(1, 2\) \(tuple\)"):
        state.put((1, 2), "x")


def test_a_map_of_structs_is_found_by_dict_tuple_or_row(open_backend):
    state = open_backend({"m": MapState("struct<a:int,b:string>", "long")}).at("k").m
    state.put({"b": "x", "a": 1}, 5)
    assert state.get((1, "x")) == 5
    (row,) = state.keys()
    assert (row.a, row.b) == (1, "x")
    state.remove(row)
    assert not state.contains([1, "x"])


def test_reducing_folds_what_is_added(open_backend):
    state = open_backend({"total": ReducingState("long", operator.add)}).at("a").total
    for number in (5, 3, 4):
        state.add(number)
    assert state.get() == 12
    with pytest.raises(StateTypeError, match="state 'total': None"):
        state.add(None)
    assert state.get() == 12
    state.clear()
    state.add(1)
    assert state.get() == 1


def test_a_reducing_function_is_given_both_values_in_one_form(open_backend):
    seen: list[Any] = []

    def longer(a: Any, b: Any) -> Any:
        seen.append((type(a).__name__, type(b).__name__, a.n, b.n))
        return max(a, b)

    state = (
        open_backend({"r": ReducingState("struct<n:long,tags:array<string>>", longer)}).at("a").r
    )
    state.add({"n": 1, "tags": ["x"]})
    state.add((2, ("y",)))
    assert seen == [("Row", "Row", 1, 2)]
    assert state.get() == (2, ["y"])


def test_a_reducing_function_that_changes_in_place_changes_nothing_but_its_result(open_backend):
    def joined(a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        b.clear()
        return a

    backend = open_backend({"r": ReducingState("array<long>", joined)})
    state = backend.at("a").r
    first, second = [1], [2]
    state.add(first)
    cut = backend.freeze()
    state.add(second)
    assert state.get() == [1, 2]
    assert (first, second) == ([1], [2])
    epoch = backend.write(cut)
    restored = open_backend.reopen({"r": ReducingState("array<long>", joined)}, epoch)
    assert restored.contents("r") == {"a": [1]}


def test_a_reducing_function_that_returns_nothing_is_refused(open_backend):
    state = open_backend({"r": ReducingState("array<long>", list.extend)}).at("a").r
    state.add([1])
    with pytest.raises(StateTypeError, match="state 'r': its function returned None"):
        state.add([2])
    assert state.get() == [1]


def test_a_reduced_value_is_checked_against_the_type(open_backend):
    state = open_backend({"r": ReducingState("byte", operator.add)}).at("a").r
    state.add(100)
    with pytest.raises(StateTypeError, match=r"state 'r': 200 \(int\).* byte"):
        state.add(100)
    with pytest.raises(StateTypeError, match=r"state 'r': True \(bool\)"):
        state.add(True)
    assert state.get() == 100


def test_aggregating_with_an_immutable_accumulator(open_backend):
    declared = {"average": AggregatingState(Average(), "struct<total:double,n:long>")}
    backend = open_backend(declared)
    for number in (1.0, 2.0, 6.0):
        backend.at("a").average.add(number)
    assert backend.at("a").average.get() == 3.0
    restored = open_backend.reopen(declared, backend.snapshot())
    restored.at("a").average.add(3.0)
    assert restored.at("a").average.get() == 3.0
    assert restored.at("a").average.get_many(["a", "b"]) == [3.0, None]


@pytest.mark.parametrize("accumulator", ["array<string>", None])
def test_aggregating_with_an_accumulator_changed_in_place(open_backend, accumulator):
    declared = {"distinct": AggregatingState(Distinct(), accumulator)}
    backend = open_backend(declared)
    for key, value in [("a", "x"), ("a", "y"), ("b", "z"), ("a", "x")]:
        backend.at(key).distinct.add(value)
    cut = backend.freeze()
    backend.at("a").distinct.add("later")
    assert backend.contents("distinct") == {"a": 3, "b": 1}
    assert Distinct.empty == []
    assert open_backend.reopen(declared, backend.write(cut)).contents("distinct") == {
        "a": 2,
        "b": 1,
    }


def test_many_keys_are_read_and_written_at_once(open_backend):
    backend = open_backend({"value": ValueState("array<long>")})
    state = backend.at(None).value
    state.put_many(["a", "b", "c"], ([1], [2], [3]))
    state.put_many(["b"], [None])
    assert state.get_many(["c", "b", "a", "d"]) == [[3], None, [1], None]
    found = state.get_many(["a"])
    found[0].append(9)
    assert state.get_many(["a"]) == [[1]]
    restored = open_backend.reopen({"value": ValueState("array<long>")}, backend.snapshot())
    assert restored.contents("value") == {"a": [1], "c": [3]}


@pytest.mark.parametrize(
    ("keys", "values", "said"),
    [
        (["a", "b"], [1], "2 keys and 1 values"),
        (["a", "b"], [1, "x"], "'x'"),
        (["a", 5], [1, 2], "a key: 5"),
    ],
)
def test_many_keys_are_written_all_or_not_at_all(open_backend, keys, values, said):
    backend = open_backend({"value": ValueState("long")})
    with pytest.raises(StateTypeError, match=said):
        backend.at(None).value.put_many(keys, values)
    assert backend.contents("value") == {}
