"""What every keyed backend must do, whichever it is."""

from __future__ import annotations

import copy
import math
import operator
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from mainstay.errors import SnapshotStorageError, StateTypeError
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from mainstay.state.hashing import groups_of, hash_keys
from mainstay.state.keygroups import subtask_of
from mainstay.state.values import ValueType

M = 128
UTC = timezone.utc


class Average:
    """An immutable accumulator: add returns a new one."""

    def create(self) -> Any:
        return (0.0, 0)

    def add(self, accumulator: Any, value: float) -> Any:
        return accumulator.total + value, accumulator.n + 1

    def result(self, accumulator: Any) -> float:
        return accumulator.total / accumulator.n


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


def all_kinds() -> dict[str, Any]:
    return {
        "value": ValueState("long"),
        "items": ListState("string"),
        "by_page": MapState("string", "long"),
        "total": ReducingState("long", operator.add),
        "average": AggregatingState(Average(), "struct<total:double,n:long>"),
    }


def fill(states: Any, number: int) -> None:
    states.value.update(number)
    states.items.extend([f"a{number}", f"b{number}"])
    states.by_page.put("page", number)
    states.by_page.put("none", None)
    states.total.add(number)
    states.average.add(float(number))


def filled(number: int) -> dict[str, Any]:
    return {
        "value": number,
        "items": [f"a{number}", f"b{number}"],
        "by_page": {"page": number, "none": None},
        "total": number,
        "average": float(number),
    }


def contents(backend: Any, key: Any) -> dict[str, Any]:
    states = backend.at(key)
    return {
        "value": states.value.get(),
        "items": states.items.get(),
        "by_page": dict(states.by_page.items()),
        "total": states.total.get(),
        "average": states.average.get(),
    }


EMPTY = {"value": None, "items": [], "by_page": {}, "total": None, "average": None}


def group_of(key: Any, key_type: str = "string") -> int:
    return int(groups_of(hash_keys([key], ValueType.of(key_type).arrow), M)[0])


# ------------------------------------------------------------ what the states do


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


# ------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("declared", "wrong", "shown"),
    [
        ("long", "5", r"'5' \(str\) .*long"),
        ("long", True, r"True \(bool\) .*long"),
        ("long", 5.0, r"5\.0 \(float\) .*long"),
        ("int", 1 << 31, r"2147483648 \(int\) .*int"),
        ("double", "x", r"'x' \(str\) .*double"),
        ("string", 5, r"5 \(int\) .*string"),
        ("string", "half \ud83d", r"\(str\) .*string"),
        ("boolean", 1, r"1 \(int\) .*boolean"),
        ("date", datetime(2024, 1, 1), r"\(datetime\) .*date"),
        ("timestamp", 5, r"5 \(int\) .*timestamp"),
        ("array<long>", "abc", r"'abc' \(str\) .*array<long>"),
        ("array<long>", [1, "x"], r"'x' \(str\) .*long"),
        ("struct<a:int>", {"b": 1}, r"\(dict\) .*struct<a:int>"),
        ("decimal(4,2)", Decimal("1.005"), r"1\.005.*decimal\(4,2\)"),
    ],
)
def test_a_wrong_type_is_refused_when_it_is_written(open_backend, declared, wrong, shown):
    backend = open_backend(
        {
            "value": ValueState(declared),
            "items": ListState(declared),
            "by_page": MapState("string", declared),
        }
    )
    states = backend.at("a")
    calls = {
        "value": lambda: states.value.update(wrong),
        "items": lambda: states.items.add(wrong),
        "by_page": lambda: states.by_page.put("x", wrong),
    }
    for name, call in calls.items():
        with pytest.raises(StateTypeError, match=rf"state '{name}': .*{shown}"):
            call()
    assert backend.freeze().segments == ()


def test_a_wrong_map_key_is_refused_wherever_it_is_given(open_backend):
    state = open_backend({"by_page": MapState("long", "long")}).at("a").by_page
    for call in (state.get, state.contains, state.remove, lambda key: state.put(key, 1)):
        with pytest.raises(StateTypeError, match=r"state 'by_page': a map key: 'x' \(str\).*long"):
            call("x")


SCALARS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "byte": [-128, 0, 127],
    "short": [-(1 << 15), (1 << 15) - 1],
    "int": [-(1 << 31), 0, (1 << 31) - 1],
    "long": [-(1 << 63), -1, 0, (1 << 63) - 1],
    "float": [0.5, -0.0, math.inf, math.nan, 0.1],
    "double": [0.1, -0.0, -math.inf, math.nan, sys.float_info.max, 5e-324],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-99999999.99"), Decimal("0.00")],
    "decimal(38,0)": [Decimal(10**38 - 1)],
    "string": ["", "ascii", "Grüße 🌍", "\x00 inside"],
    "binary": [b"", b"\x00\xff", bytearray(b"ab"), memoryview(b"cd")],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 30, 1, 999_999, tzinfo=UTC),
        datetime(2024, 6, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(2024, 2, 29, 12, 30, 1, 1)],
}

NESTED: dict[str, list[Any]] = {
    "array<long>": [[], [1, None, 3]],
    "array<array<string>>": [[["a"], [], None]],
    "map<string,long>": [{}, {"a": 1, "b": None}],
    "map<struct<a:int>,array<int>>": [{(1,): [1, 2]}],
    "struct<a:int,b:string>": [(1, "x"), {"a": 2}, (None, None)],
    "struct<a:array<struct<b:double>>,c:map<string,date>>": [
        {"a": [(1.5,), None], "c": {"d": date(2024, 1, 1)}},
        (None, None),
    ],
}

UNDECLARED: list[Any] = [5, "x", b"x", 1.5, True, (1, [2]), {"a": {1, 2}}, Decimal("1.5"), [None]]


def same(one: Any, other: Any) -> bool:
    """Equal, of one class, with NaN equal to itself and -0.0 not to 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one == other and all(map(same, one.values(), other.values()))
    return bool(one == other)


@pytest.mark.parametrize("ddl", [*SCALARS, *NESTED, None])
def test_what_is_read_after_a_restore_is_what_was_read_before(open_backend, ddl):
    values = UNDECLARED if ddl is None else (SCALARS | NESTED)[ddl]
    declared = {
        "value": ValueState(ddl),
        "items": ListState(ddl),
        "by_page": MapState("long", ddl),
    }
    backend = open_backend(declared, "long")
    for number, value in enumerate(values):
        states = backend.at(number)
        states.value.update(value)
        states.items.extend([value, value])
        states.by_page.put(number, value)
        states.by_page.put(-1, None)
    restored = open_backend.reopen(declared, backend.snapshot(), "long")
    for name in declared:
        before, after = backend.contents(name), restored.contents(name)
        assert len(before) == len(values)
        assert before.keys() == after.keys()
        assert all(same(before[key], after[key]) for key in before), (before, after)
    again = open_backend.reopen(declared, restored.snapshot(), "long")
    assert all(same(again.contents("value")[k], v) for k, v in backend.contents("value").items())


KEYS: dict[str, list[Any]] = {
    **{ddl: [*values, None] for ddl, values in SCALARS.items()},
    "struct<a:string,b:long>": [("x", 1), ("x", None), (None, None), None],
    "struct<a:struct<b:double>,c:date>": [((math.nan,), date(2024, 1, 1)), (None, None)],
}


@pytest.mark.parametrize("ddl", KEYS)
def test_any_scalar_struct_or_none_may_be_the_key(open_backend, ddl):
    frozen = ValueType.of(ddl)
    keys = [None if key is None else frozen.freeze(key) for key in KEYS[ddl]]
    declared = {"n": ValueState("long"), "m": MapState("string", "long"), "l": ListState("long")}
    backend = open_backend(declared, ddl)
    for number, key in enumerate(keys):
        states = backend.at(key)
        states.n.update(-1)
        states.l.add(number)
        states.m.put("old", number)
    backend.snapshot()
    for number, key in enumerate(keys):
        states = backend.at(key)
        states.n.update(number)
        states.l.add(number)
        states.m.remove("old")
        states.m.put("new", number)
    backend.snapshot()
    assert backend.compact()
    restored = open_backend.reopen(declared, backend.snapshot(), ddl)
    for number, key in enumerate(keys):
        states = restored.at(key)
        assert states.n.get() == number
        assert states.n.get_many([KEYS[ddl][number]]) == [number]
        assert states.l.get() == [number, number]
        assert dict(states.m.items()) == {"new": number}
    assert len(restored.contents("n")) == len(keys)


@pytest.mark.parametrize(
    ("ddl", "one", "other"),
    [
        ("double", 0.0, -0.0),
        ("float", -0.0, 0.0),
        ("double", float("nan"), float("nan")),
        ("struct<a:double,b:int>", (0.0, 1), (-0.0, 1)),
        ("struct<a:double,b:int>", (float("nan"), 1), (-float("nan"), 1)),
    ],
)
def test_keys_that_are_equal_stay_one_key_through_a_compaction(open_backend, ddl, one, other):
    declared = {"n": ValueState("long"), "m": MapState(ddl, "long")}
    freeze = ValueType.of(ddl).freeze
    backend = open_backend(declared, ddl)
    backend.at(freeze(one)).n.update(1)
    backend.at(None).m.put(one, 1)
    backend.snapshot()
    assert backend.at(freeze(other)).n.get() == 1
    backend.states.n.clear()
    backend.at(None).m.remove(other)
    backend.snapshot()
    assert backend.compact()
    restored = open_backend.reopen(declared, backend.snapshot(), ddl)
    assert restored.contents("n") == {}
    assert restored.contents("m") == {}


def test_no_key_at_all_is_not_the_key_whose_columns_are_none(open_backend):
    ddl = "struct<a:string,b:long>"
    declared = {"n": ValueState("long")}
    backend = open_backend(declared, ddl)
    absent = ValueType.of(ddl).freeze((None, None))
    backend.at(None).n.update(1)
    backend.at(absent).n.update(2)
    backend.snapshot()
    backend.at(None).n.clear()
    backend.snapshot()
    assert backend.compact()
    restored = open_backend.reopen(declared, backend.snapshot(), ddl)
    assert restored.contents("n") == {(None, None): 2}


# ------------------------------------------------------------ nobody else's objects


@dataclass
class Profile:
    tags: list[str]


ALIASES = [
    ("array<long>", lambda: [1, 2], lambda x: x.append(3)),
    ("array<array<long>>", lambda: [[1], [2]], lambda x: x[0].append(3)),
    ("map<string,array<long>>", lambda: {"a": [1]}, lambda x: x["a"].append(2)),
    ("map<string,long>", lambda: {"a": 1}, lambda x: x.update(b=2)),
    ("struct<a:array<long>,b:int>", lambda: ([1], 2), lambda x: x[0].append(3)),
    ("struct<a:map<string,long>>", lambda: {"a": {"k": 1}}, lambda x: x["a"].update(k=2)),
    ("binary", lambda: bytearray(b"ab"), lambda x: isinstance(x, bytearray) and x.append(99)),
    (None, lambda: [1, [2]], lambda x: x[1].append(3)),
    (None, lambda: {"a": {1}}, lambda x: x["a"].add(2)),
    (None, lambda: Profile(["x"]), lambda x: x.tags.append("y")),
    (None, lambda: bytearray(b"ab"), lambda x: x.append(99)),
]


@pytest.mark.parametrize(("ddl", "make", "change"), ALIASES)
def test_changing_an_object_changes_neither_live_state_nor_a_snapshot(
    open_backend, ddl, make, change
):
    declared = {
        "value": ValueState(ddl),
        "items": ListState(ddl),
        "by_page": MapState("string", ddl),
    }
    backend = open_backend(declared)
    given = make()
    states = backend.at("a")
    states.value.update(given)
    states.items.add(given)
    states.by_page.put("x", given)

    def read() -> list[Any]:
        states = backend.at("a")
        return [
            states.value.get(),
            states.value.get_many(["a"])[0],
            *states.items.get(),
            states.by_page.get("x"),
            *states.by_page.values(),
            dict(states.by_page.items())["x"],
        ]

    # A deep copy: what was read might be the kept object itself, and change with it.
    before = copy.deepcopy(read())
    change(given)
    for returned in read():
        change(returned)
    assert read() == before
    cut = backend.freeze()
    for returned in read():
        change(returned)
    restored = open_backend.reopen(declared, backend.write(cut))
    backend = restored
    assert read() == before
    for returned in read():
        change(returned)
    assert read() == before


def test_changing_a_returned_list_changes_nothing(open_backend):
    backend = open_backend({"items": ListState("long")})
    state = backend.at("a").items
    given = [1, 2]
    state.update(given)
    given.append(3)
    state.get().append(4)
    assert state.get() == [1, 2]
    assert open_backend.reopen({"items": ListState("long")}, backend.snapshot()).contents(
        "items"
    ) == {"a": [1, 2]}


# ------------------------------------------------------------ snapshots


def test_a_snapshot_of_nothing_restores_to_nothing(open_backend):
    epoch = open_backend(all_kinds()).snapshot()
    assert epoch.chain == ()
    backend = open_backend.reopen(all_kinds(), epoch)
    assert contents(backend, "a") == EMPTY
    fill(backend.at("a"), 1)
    assert contents(open_backend.reopen(all_kinds(), backend.snapshot()), "a") == filled(1)


def test_what_was_not_touched_before_a_restore_survives_the_next_snapshots(open_backend):
    first = open_backend(all_kinds())
    fill(first.at("a"), 1)
    epoch = first.snapshot()
    for _ in range(3):
        backend = open_backend.reopen(all_kinds(), epoch)
        epoch = backend.snapshot()
    assert contents(open_backend.reopen(all_kinds(), epoch), "a") == filled(1)


def test_an_epoch_without_changes_writes_no_segment(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    first, second = backend.snapshot(), backend.snapshot()
    assert first.chain == second.chain
    assert len(first.chain) == 1


def test_what_is_written_after_the_freeze_is_not_in_the_snapshot(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("gone"), 3)
    cut = backend.freeze()
    states = backend.at("a")
    fill(states, 5)
    states.by_page.put("new", 1)
    for name in EMPTY:
        getattr(backend.at("gone"), name).clear()
    fill(backend.at("b"), 2)
    restored = open_backend.reopen(all_kinds(), backend.write(cut))
    assert contents(restored, "a") == filled(1)
    assert contents(restored, "gone") == filled(3)
    assert contents(restored, "b") == EMPTY
    assert contents(backend, "gone") == EMPTY


def test_a_second_freeze_does_not_disturb_one_that_is_still_being_encoded(open_backend):
    backend = open_backend({"value": ValueState("long"), "items": ListState("long")}, "long")
    for key in range(5000):
        backend.at(key).value.update(key)
        backend.at(key).items.add(key)
    first = backend.freeze()
    encoding = backend.member.encode(first.segments[0])
    assert next(encoding) == []
    for key in range(5000):
        backend.at(key).value.update(-key)
        backend.at(key).items.add(-key)
    second = backend.freeze()
    backend.at(0).value.update(99)
    later = backend.write(second)
    tables = list(encoding)[-1]
    ref = backend.member.write(backend.storage, "again", tables)
    alone = open_backend({"value": ValueState("long"), "items": ListState("long")}, "long")
    alone.absorb(ref)
    assert alone.contents("value") == {key: key for key in range(5000)}
    assert alone.contents("items") == {key: [key] for key in range(5000)}
    both = open_backend.reopen(
        {"value": ValueState("long"), "items": ListState("long")}, later, "long"
    )
    assert both.contents("value") == {key: -key for key in range(5000)}
    assert both.contents("items") == {key: [key, -key] for key in range(5000)}


class BrokenStorage(MemoryStorage):
    def write(self, path: str, data: Any) -> None:
        raise SnapshotStorageError(f"{path} cannot be written")


def test_an_aborted_epoch_loses_nothing(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    backend.snapshot()
    fill(backend.at("b"), 2)
    backend.at("a").items.add("in the aborted epoch")
    with pytest.raises(SnapshotStorageError):
        backend.write(backend.freeze(), BrokenStorage())
    backend.at("a").items.add("after it")
    backend.at("b").total.add(5)
    epoch = backend.snapshot()
    assert len({ref.id for ref in epoch.chain}) == len(epoch.chain) == 3
    restored = open_backend.reopen(all_kinds(), epoch)
    assert restored.contents("items") == {
        "a": ["a1", "b1", "in the aborted epoch", "after it"],
        "b": ["a2", "b2"],
    }
    assert restored.at("b").total.get() == 7


def test_a_segment_is_written_once_however_many_epochs_hold_it(open_backend):
    backend = open_backend({"items": ListState("long")})
    backend.at("a").items.add(1)
    cuts = [backend.freeze() for _ in range(3)]
    epochs = [backend.write(cut) for cut in cuts]
    assert len(open_backend.storage.list("state")) == 1
    assert epochs[0].chain == epochs[1].chain == epochs[2].chain
    backend.at("a").items.add(2)
    epoch = backend.snapshot()
    assert len({ref.id for ref in epoch.chain}) == len(epoch.chain) == 2
    assert open_backend.reopen({"items": ListState("long")}, epoch).contents("items") == {
        "a": [1, 2]
    }


def test_deletions_survive_every_way_of_merging(open_backend):
    backend = open_backend(all_kinds())
    for number, key in enumerate("abcdefgh"):
        fill(backend.at(key), number)
    backend.snapshot()
    for key in "abcd":
        for name in EMPTY:
            getattr(backend.at(key), name).clear()
    backend.at("e").by_page.remove("page")
    backend.at("f").items.update(["only"])
    backend.snapshot()
    fill(backend.at("a"), 9)
    before = {name: backend.contents(name) for name in EMPTY}
    epoch = backend.snapshot()
    while backend.compact():
        epoch = backend.snapshot()
    assert len(epoch.chain) < 3
    restored = open_backend.reopen(all_kinds(), epoch)
    assert {name: restored.contents(name) for name in EMPTY} == before


def test_a_restore_that_must_rewrite_depends_on_no_older_file(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("b"), 2)
    old = backend.snapshot()
    moved = open_backend.reopen(all_kinds(), old, rewrite=True)
    moved.at("b").items.add("later")
    for name in EMPTY:
        getattr(moved.at("a"), name).clear()
    new = moved.snapshot()
    assert {ref.file.path for ref in old.chain}.isdisjoint(ref.file.path for ref in new.chain)
    for ref in old.chain:
        open_backend.storage.delete(ref.file.path)
    restored = open_backend.reopen(all_kinds(), new)
    assert contents(restored, "a") == EMPTY
    assert contents(restored, "b") == {**filled(2), "items": ["a2", "b2", "later"]}


# ------------------------------------------------------------ rescaling


def one_key_per_group() -> dict[int, str]:
    found: dict[int, str] = {}
    number = 0
    while len(found) < M:
        found.setdefault(group_of(f"key-{number}"), f"key-{number}")
        number += 1
    return found


KEY_OF = one_key_per_group()


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 4), (2, 2), (15, 77), (77, 15)])
def test_a_value_is_found_only_by_the_owner_of_its_key_group(open_backend, old, new):
    """Every group has a state of its own, which nobody else declared before the rescale."""
    states = {f"of_{group}": ValueState("long") for group in range(M)}
    epoch = []
    for subtask in range(old):
        owned = [group for group in range(M) if subtask_of(group, old, M) == subtask]
        declared = {f"of_{group}": ValueState("long") for group in owned}
        backend = open_backend(declared, "string", subtask, old)
        for group in owned:
            getattr(backend.at(KEY_OF[group]), f"of_{group}").update(group)
        epoch.append(backend.snapshot())
    for subtask, backend in enumerate(open_backend.restore(states, epoch, new)):
        for group in range(M):
            is_owner = subtask_of(group, new, M) == subtask
            expected = {KEY_OF[group]: group} if is_owner else {}
            assert backend.contents(f"of_{group}") == expected


def test_going_from_two_to_three_and_back_applies_nothing_twice(open_backend):
    declared = {"items": ListState("long")}
    expected: dict[str, list[int]] = defaultdict(list)
    backends = open_backend.all(declared, 2)
    for round, parallelism in enumerate([3, 2, 3, 2]):
        for group, key in KEY_OF.items():
            subtask = subtask_of(group, len(backends), M)
            backends[subtask].at(key).items.add(round)
            expected[key].append(round)
        epoch = [backend.snapshot() for backend in backends]
        backends = open_backend.restore(declared, epoch, parallelism)
        for backend in backends:
            backend.member.chain.check_invariants()
    found: dict[str, list[int]] = {}
    for backend in backends:
        assert found.keys().isdisjoint(backend.contents("items"))
        found.update(backend.contents("items"))
    assert found == expected


# ------------------------------------------------------------ at length


class Model:
    """Plain dictionaries that every operation is done to as well."""

    def __init__(self) -> None:
        self.value: dict[int, Any] = {}
        self.items: dict[int, list[Any]] = {}
        self.by_page: dict[int, dict[int, Any]] = {}

    def copy(self) -> tuple[Any, ...]:
        return (
            {key: list(value) for key, value in self.value.items()},
            {key: [list(item) for item in items] for key, items in self.items.items()},
            {key: dict(entries) for key, entries in self.by_page.items()},
        )


def random_operation(chance: random.Random, states: Any, key: int, model: Model) -> None:
    """One operation on both; whatever is returned is changed, to show that it is a copy."""
    which, number, item = chance.randrange(12), chance.randrange(100), chance.randrange(6)
    if which == 0:
        given = [number]
        states.value.update(given)
        given.append(-1)
        model.value[key] = [number]
    elif which == 1:
        if (found := states.value.get()) is not None:
            found.append(-1)
    elif which == 2:
        states.value.clear()
        model.value.pop(key, None)
    elif which in (3, 4):
        states.items.add([number])
        model.items.setdefault(key, []).append([number])
    elif which == 5:
        for element in states.items.get() or ():
            element.append(-1)
    elif which == 6:
        new = [[n] for n in range(item)]
        states.items.update(new)
        model.items[key] = [list(element) for element in new]
        if not new:
            del model.items[key]
        for element in new:
            element.append(-1)
    elif which in (7, 8, 9):
        states.by_page.put(item, number if number % 7 else None)
        model.by_page.setdefault(key, {})[item] = number if number % 7 else None
    elif which == 10:
        states.by_page.remove(item)
        if key in model.by_page:
            model.by_page[key].pop(item, None)
            if not model.by_page[key]:
                del model.by_page[key]
    elif number % 4 == 0:
        getattr(states, "by_page" if number % 8 else "items").clear()
        (model.by_page if number % 8 else model.items).pop(key, None)


def test_a_hundred_thousand_operations_with_overlapping_freezes_equal_a_dictionary(open_backend):
    declared = {
        "value": ValueState("array<long>"),
        "items": ListState("array<long>"),
        "by_page": MapState("long", "long"),
    }
    chance = random.Random(20170817)
    backend, mirror = open_backend(declared, "long"), open_backend(declared, "long")
    model = Model()
    waiting: list[tuple[Any, tuple[Any, ...]]] = []
    absorbed = 0

    def seen(of: Any) -> tuple[Any, ...]:
        return of.contents("value"), of.contents("items"), of.contents("by_page")

    for step in range(1, 100_001):
        key = chance.randrange(20)
        random_operation(chance, backend.at(key), key, model)
        if step % 500 == 0:
            assert seen(backend) == model.copy()
            waiting.append((backend.freeze(), model.copy()))
        while waiting and (len(waiting) > 3 or chance.random() < 0.001):
            # Written late, while newer segments wait behind it and the state goes on changing.
            cut, expected = waiting.pop(0)
            chain = backend.write(cut).chain
            mirror.absorb(*chain[absorbed:])
            absorbed = len(chain)
            assert seen(mirror) == expected
    assert absorbed > 150
