"""Merging the rows of segments: what is useless goes, what counts stays in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.snapshot.statefile import StateTable
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.hashing import key_groups
from mainstay.state.merge import merge
from mainstay.state.operations import (
    APPEND,
    DELETE,
    ENTRY_PUT,
    ENTRY_REMOVE,
    PUT,
    columns_of,
)
from mainstay.state.values import ValueType

VALUE, LIST, MAP = ValueState("long"), ListState("long"), MapState("string", "long")


def part(state: Any, *rows: tuple[Any, ...], key: str = "string") -> StateTable:
    schema = columns_of(replace(state.info(), name="s"), ValueType.of(key))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return StateTable("s", pa.table(arrays, schema=schema), key_groups([arrays[0]], 16))


def merged(*parts: StateTable, to_base: bool = False) -> list[tuple[Any, ...]]:
    result = merge(parts, to_base=to_base)
    assert np.array_equal(result.groups, key_groups([result.table.column("key")], 16))
    return [tuple(row.values()) for row in result.table.to_pylist()]


def test_the_last_value_of_a_key_wins():
    parts = part(VALUE, ("a", PUT, 1), ("b", PUT, 1)), part(VALUE, ("a", PUT, 2))
    assert merged(*parts) == [("b", PUT, 1), ("a", PUT, 2)]


def test_a_deletion_stays_until_there_is_nothing_older_to_delete():
    parts = part(VALUE, ("a", PUT, 1)), part(VALUE, ("a", DELETE, None), ("b", DELETE, None))
    assert merged(*parts) == [("a", DELETE, None), ("b", DELETE, None)]
    assert merged(*parts, to_base=True) == []


def test_a_key_that_comes_back_after_a_deletion_stays():
    parts = part(VALUE, ("a", DELETE, None)), part(VALUE, ("a", PUT, 3))
    assert merged(*parts, to_base=True) == [("a", PUT, 3)]


def test_appends_stay_in_order_and_each_once():
    parts = (
        part(LIST, ("a", APPEND, [1]), ("b", PUT, [5])),
        part(LIST, ("a", APPEND, [2, 3])),
        part(LIST, ("a", APPEND, [4]), ("b", APPEND, [6])),
    )
    expected = [
        ("a", APPEND, [1]),
        ("b", PUT, [5]),
        ("a", APPEND, [2, 3]),
        ("a", APPEND, [4]),
        ("b", APPEND, [6]),
    ]
    assert merged(*parts) == merged(*parts, to_base=True) == expected


def test_a_list_that_is_replaced_or_deleted_forgets_its_appends():
    parts = (
        part(LIST, ("a", APPEND, [1]), ("b", APPEND, [1])),
        part(LIST, ("a", PUT, [2]), ("b", DELETE, [])),
        part(LIST, ("a", APPEND, [3]), ("b", APPEND, [4])),
    )
    kept = [("a", PUT, [2]), ("b", DELETE, []), ("a", APPEND, [3]), ("b", APPEND, [4])]
    assert merged(*parts) == kept
    assert merged(*parts, to_base=True) == [row for row in kept if row[1] != DELETE]


def test_the_last_word_on_an_entry_wins_and_leaves_other_entries_alone():
    parts = (
        part(MAP, ("a", ENTRY_PUT, "x", 1), ("a", ENTRY_PUT, "y", 1), ("b", ENTRY_PUT, "x", 7)),
        part(MAP, ("a", ENTRY_REMOVE, "x", None), ("a", ENTRY_PUT, "y", None)),
    )
    expected = [
        ("b", ENTRY_PUT, "x", 7),
        ("a", ENTRY_REMOVE, "x", None),
        ("a", ENTRY_PUT, "y", None),
    ]
    assert merged(*parts) == expected
    assert merged(*parts, to_base=True) == [expected[0], expected[2]]


def test_clearing_a_map_forgets_what_came_before_and_keeps_what_came_after():
    parts = (
        part(MAP, ("a", ENTRY_PUT, "x", 1), ("a", ENTRY_PUT, "y", 1)),
        part(MAP, ("a", DELETE, None, None), ("a", ENTRY_PUT, "x", 2)),
    )
    assert merged(*parts) == [("a", DELETE, None, None), ("a", ENTRY_PUT, "x", 2)]
    assert merged(*parts, to_base=True) == [("a", ENTRY_PUT, "x", 2)]


@pytest.mark.parametrize("state", [VALUE, LIST, MAP])
def test_nothing_merged_with_nothing_is_nothing(state):
    assert merged(part(state), part(state)) == []
    assert merged(part(state), to_base=True) == []


@pytest.mark.parametrize("key", ["boolean", "byte", "long", "binary", "date", "timestamp_ntz"])
def test_the_absent_key_is_a_key_of_its_own(key):
    parts = part(VALUE, (None, PUT, 1), key=key), part(VALUE, (None, PUT, 2), key=key)
    assert merged(*parts) == [(None, PUT, 2)]


@pytest.mark.parametrize("key", ["float", "double"])
def test_both_zeros_are_one_key_and_both_nans_too(key):
    nan = float("nan")
    parts = (
        part(VALUE, (0.0, PUT, 1), (nan, PUT, 1), (1.5, PUT, 1), key=key),
        part(VALUE, (-0.0, DELETE, None), (nan, DELETE, None), key=key),
    )
    assert merged(*parts, to_base=True) == [(1.5, PUT, 1)]


def test_keys_of_several_columns_are_compared_column_by_column():
    key = "struct<a:string,b:long>"
    a1, a2, b1 = {"a": "a", "b": 1}, {"a": "a", "b": 2}, {"a": "b", "b": 1}
    parts = (
        part(VALUE, (a1, PUT, 1), (a2, PUT, 2), (b1, PUT, 3), key=key),
        part(VALUE, (a1, PUT, 4), key=key),
    )
    assert merged(*parts) == [(a2, PUT, 2), (b1, PUT, 3), (a1, PUT, 4)]


def test_a_struct_that_is_absent_is_not_the_one_whose_fields_are():
    key = "struct<a:string,b:long>"
    nothing = {"a": None, "b": None}
    parts = (
        part(VALUE, (None, PUT, 1), (nothing, PUT, 2), key=key),
        part(VALUE, (None, DELETE, None), key=key),
    )
    assert merged(*parts, to_base=True) == [(nothing, PUT, 2)]
