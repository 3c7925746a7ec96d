"""Stored values that are applied by the column, and written anew as the columns they came from."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.heap import tables as heap_tables
from mainstay.state.backends.heap import values as heap_values
from mainstay.state.backends.heap.access import SHARDS
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.backends.heap.shards import in_shards
from mainstay.state.freezing import NAN
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.kinds import VALUE
from mainstay.state.operations import DELETE, PUT, columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

LONG, TEXT = ValueType.of("long"), ValueType.of("string")
LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([-1, -2, (1 << 61) - 1, 1 << 61])
Rows = list[tuple[Any, int, Any]]


def backend(key: ValueType = LONG, value: ValueType = LONG) -> HeapBackend:
    return HeapBackend([StateInfo("value", VALUE, value)], key, 16, KeyContext())


def stored(rows: Rows, key: ValueType = LONG, value: ValueType = LONG) -> StateTable:
    """Rows as they are read from a file."""
    keys, ops, kept = zip(*rows, strict=True)
    columns = [key.to_array(keys), pa.array(ops, pa.int8()), value.to_array(kept)]
    schema = columns_of(StateInfo("value", VALUE, value), key)
    table = pa.table(columns, schema=schema)
    return StateTable("value", table, StoredKey.of(key).groups(columns[0], 16))


def apply(into: HeapBackend, *applied: StateTable) -> None:
    for rows in applied:
        for _ in into.apply(rows):
            continue


def segment(of: HeapBackend) -> list[StateTable]:
    """What is stored of everything that has changed."""
    *_, tables = of.encode(of.freeze())
    return tables


def contents(of: HeapBackend) -> dict[Any, Any]:
    return dict(of.entries("value"))


def puts(entries: dict[Any, Any]) -> Rows:
    return [(key, PUT, kept) for key, kept in entries.items()]


@pytest.fixture(params=["in one dictionary", "in many"])
def _divided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in many":
        monkeypatch.setattr(heap_tables, "SHARD_ABOVE", 3)


NUMBERS = {n: n // 3 for n in [*range(-5, 40), (1 << 62) + 1, -(1 << 63)]}


@pytest.mark.usefixtures("_divided")
def test_what_is_stored_anew_are_the_columns_that_were_applied() -> None:
    first = backend()
    applied = [stored(puts(NUMBERS)), stored(puts({0: 7, 100: 8}))]
    apply(first, *applied)
    assert contents(first) == {**NUMBERS, 0: 7, 100: 8}
    first.mark_all_changed(applied)
    assert not any(part for part in (first.tables["value"].changes, *first.tables["value"].shards))
    second = backend()
    apply(second, *segment(first))
    assert contents(second) == contents(first)


@pytest.mark.usefixtures("_divided")
def test_what_is_written_after_a_restore_counts_more_than_what_was_restored() -> None:
    first = backend()
    applied = [stored(puts(NUMBERS))]
    apply(first, *applied)
    first.mark_all_changed(applied)
    table = first.tables["value"]
    table.put(1, 77)
    table.delete(2)
    first.relieve()
    second = backend()
    apply(second, *segment(first))
    left = {**NUMBERS, 1: 77}
    del left[2]
    assert contents(second) == contents(first) == left


@pytest.mark.usefixtures("_divided")
def test_rows_that_delete_are_not_stored_anew_as_they_are() -> None:
    first = backend()
    applied = [stored(puts(NUMBERS)), stored([(1, DELETE, None), (5, DELETE, None), (1, PUT, 4)])]
    apply(first, *applied)
    first.mark_all_changed(applied)
    (written,) = segment(first)
    assert DELETE not in written.table.column("op").to_pylist()
    second = backend()
    apply(second, written)
    left = {**NUMBERS, 1: 4}
    del left[5]
    assert contents(second) == contents(first) == left


def test_large_parts_are_written_in_several_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_values, "SLICE_BYTES", 64)
    first = backend(TEXT, TEXT)
    applied = [stored(puts({str(n): "x" * n for n in range(50)}), TEXT, TEXT)]
    apply(first, *applied)
    first.mark_all_changed(applied)
    assert len(first.tables["value"]._closed) > 10
    second = backend(TEXT, TEXT)
    apply(second, *segment(first))
    assert contents(second) == contents(first)


def divided(key: ValueType, kept: list[Any]) -> None:
    """Every key lies in its shard, in the order of the column."""
    found = in_shards(key, key.to_array(kept))
    assert found.keys == [kept[row] for row in found.order.to_pylist()]
    shards = {shard: found.keys[first:after] for shard, first, after in found.runs()}
    expected: dict[int, list[Any]] = {}
    for each in kept:
        expected.setdefault(hash(each) % SHARDS, []).append(each)
    assert shards == expected


@given(st.lists(LONGS))
def test_whole_numbers_are_divided_by_their_hashes(kept: list[int]) -> None:
    divided(LONG, kept)


@given(st.lists(st.text()))
def test_texts_are_divided_by_their_hashes(kept: list[str]) -> None:
    divided(TEXT, kept)


@given(st.lists(st.tuples(LONGS, st.text(max_size=2))))
def test_structs_are_divided_by_their_hashes(kept: list[tuple[int, str]]) -> None:
    pair = ValueType.of("struct<a: long, b: string>")
    divided(pair, [pair.freeze(each) for each in kept])


@pytest.mark.parametrize("times", [1, 50], ids=["few", "many"])
def test_a_nan_of_a_column_is_the_one_that_is_kept(times: int) -> None:
    real, pair = ValueType.of("double"), ValueType.of("struct<a: double, b: float>")
    other = float("inf") - float("inf")
    found = real.from_array(pa.array([1.5, other, None, -0.0] * times))
    assert all(each is NAN for each in found[1::4])
    assert found[::4] + found[2::4] == [1.5] * times + [None] * times
    assert math.copysign(1.0, found[3]) == -1.0
    assert real.from_array(pa.array([1.5, None] * times)) == [1.5, None] * times
    rows = pair.from_array(pa.array([{"a": other, "b": 0.5}, None] * times, pair.arrow))
    assert all(row[0] is NAN for row in rows[::2])
    assert rows == [pair.freeze((NAN, 0.5)), None] * times
    flat = pair.from_array(pa.array([{"a": 2.0, "b": None}] * times, pair.arrow))
    assert flat == [pair.freeze((2.0, None))] * times
    assert {type(row) for row in flat} == {type(pair.freeze((2.0, None)))}
