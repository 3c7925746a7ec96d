"""The contract of keyed state: every type of key and value comes back as it was."""

from __future__ import annotations

import math
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from mainstay.errors import StateTypeError
from mainstay.state.declaration import (
    ListState,
    MapState,
    ValueState,
)
from mainstay.state.values import ValueType

UTC = timezone.utc


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
    stored = backend.snapshot()
    # Before the next attempt is admitted, which ends the reads of this one.
    first = {name: backend.contents(name) for name in declared}
    restored = open_backend.reopen(declared, stored, "long")
    for name, before in first.items():
        after = restored.contents(name)
        assert len(before) == len(values)
        assert before.keys() == after.keys()
        assert all(same(before[key], after[key]) for key in before), (before, after)
    again = open_backend.reopen(declared, restored.snapshot(), "long")
    assert all(same(again.contents("value")[k], v) for k, v in first["value"].items())


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
