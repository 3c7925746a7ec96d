from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from mainstay.schema import to_type
from mainstay.state.evolution import Comparison, compare, compare_keys, convert
from mainstay.state.hashing import hash_columns

WIDER = [
    ("byte", "short", [-128, 127]),
    ("byte", "long", [-128, 127]),
    ("short", "int", [-(1 << 15), 7]),
    ("int", "long", [-(1 << 31), (1 << 31) - 1]),
    ("decimal(5,2)", "decimal(7,2)", [Decimal("-999.99"), Decimal("1.50")]),
    ("decimal(5,2)", "decimal(9,4)", [Decimal("-999.99"), Decimal("0.00")]),
]

NARROWER = [
    ("long", "int"),
    ("double", "float"),
    ("int", "float"),
    ("int", "double"),
    ("long", "decimal(20,0)"),
    ("string", "binary"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
    ("decimal(7,2)", "decimal(5,2)"),
    ("decimal(5,2)", "decimal(5,3)"),
    ("decimal(5,2)", "decimal(9,1)"),
    ("boolean", "int"),
    ("array<long>", "long"),
    ("array<long>", "map<long,long>"),
    ("struct<a:int>", "map<string,int>"),
]

NESTED: list[tuple[str, str, list[Any], list[Any], list[str]]] = [
    (
        "array<int>",
        "array<long>",
        [[1, None], None, [], [2]],
        [[1, None], None, [], [2]],
        ["element: int to long"],
    ),
    (
        "map<int,float>",
        "map<long,double>",
        [[(1, 0.5)], None, [], [(2, None), (3, 1.0)]],
        [[(1, 0.5)], None, [], [(2, None), (3, 1.0)]],
        ["key: int to long", "value: float to double"],
    ),
    (
        "struct<a:int,b:string>",
        "struct<b:string,c:date,a:long>",
        [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
        [{"b": "x", "c": None, "a": 1}, None, {"b": "y", "c": None, "a": None}],
        ["a: int to long", "c: added, null", "fields in another order"],
    ),
    (
        "array<struct<m:map<string,int>>>",
        "array<struct<m:map<string,long>,n:int>>",
        [[{"m": [("x", 1)]}, None], None, [{"m": None}]],
        [[{"m": [("x", 1)], "n": None}, None], None, [{"m": None, "n": None}]],
        ["element.m.value: int to long", "element.n: added, null"],
    ),
    (
        "struct<a:int NOT NULL>",
        "struct<a:int>",
        [{"a": 1}, None],
        [{"a": 1}, None],
        ["a: may be null"],
    ),
]


def test_a_type_is_the_same_as_itself() -> None:
    found = compare(to_type("struct<a:array<int>>"), to_type("struct<a:array<int>>"))
    assert found == Comparison()


@pytest.mark.parametrize(("stored", "declared", "values"), WIDER)
def test_numbers_widen_and_a_key_stays_in_its_group(
    stored: str, declared: str, values: list[Any]
) -> None:
    old, new = to_type(stored), to_type(declared)
    assert compare(old, new).changes == (f"{stored} to {declared}",)
    assert compare_keys(old, new) == compare(old, new)
    array = pa.array([*values, None], old)
    converted = convert(array, new)
    assert converted.type == new
    assert converted.to_pylist() == [*values, None]
    assert hash_columns([array]).tolist() == hash_columns([converted]).tolist()


def test_a_float_widens_as_a_value_but_not_as_a_key() -> None:
    assert compare(pa.float32(), pa.float64()).problem is None
    # What was 0.1 to a float is not 0.1 to a double, so rows would not find their keys.
    assert compare_keys(pa.float32(), pa.float64()).problem == "float to double"


@pytest.mark.parametrize(("stored", "declared"), NARROWER)
def test_what_would_lose_something_or_mean_something_else_is_a_problem(
    stored: str, declared: str
) -> None:
    problem = compare(to_type(stored), to_type(declared)).problem
    assert problem == f"{stored} to {declared}"


@pytest.mark.parametrize(("stored", "declared", "values", "expected", "changes"), NESTED)
def test_nested_types_convert_at_any_depth_and_wherever_a_column_was_cut(
    stored: str, declared: str, values: list[Any], expected: list[Any], changes: list[str]
) -> None:
    old, new = to_type(stored), to_type(declared)
    assert list(compare(old, new).changes) == changes
    whole = pa.array(values, old)
    for start in range(len(values)):
        converted = convert(whole.slice(start), new)
        converted.validate(full=True)
        assert converted.type == new
        assert converted.to_pylist() == expected[start:]


def test_a_dropped_field_is_named_by_its_path() -> None:
    found = compare(to_type("array<struct<a:int,b:int>>"), to_type("array<struct<b:int>>"))
    assert found.dropped == ("element.a",)
    assert found.problem is None
    array = pa.array([[{"a": 1, "b": 2}]], to_type("array<struct<a:int,b:int>>"))
    assert convert(array, to_type("array<struct<b:int>>")).to_pylist() == [[{"b": 2}]]


def test_an_added_field_must_be_one_that_may_be_null() -> None:
    found = compare(to_type("struct<a:int>"), to_type("struct<a:int,b:int NOT NULL>"))
    assert found.problem == "b: added and NOT NULL, so stored values have nothing for it"


def test_a_field_that_may_be_null_does_not_become_one_that_may_not() -> None:
    found = compare(to_type("struct<a:int>"), to_type("struct<a:int NOT NULL>"))
    assert found.problem == "a: may be null in the snapshot and is declared NOT NULL"


def test_every_problem_is_named() -> None:
    found = compare(to_type("struct<a:int,b:date>"), to_type("struct<a:string,b:timestamp>"))
    assert found.problem == "a: int to string; b: date to timestamp"


@pytest.mark.parametrize(
    "declared", ["struct<b:int,a:int>", "struct<a:int,c:int>", "struct<a:int,b:int,c:int>"]
)
def test_the_fields_of_a_key_keep_their_names_and_places(declared: str) -> None:
    found = compare_keys(to_type("struct<a:int,b:int>"), to_type(declared))
    assert found.problem is not None
    assert "the fields of a key keep names and places" in found.problem


def test_the_fields_of_a_key_widen() -> None:
    found = compare_keys(to_type("struct<a:int,b:string>"), to_type("struct<a:long,b:string>"))
    assert found.changes == ("a: int to long",)
