"""The active segment in one part and in many."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.state.backends.heap import tables as heap_tables
from mainstay.state.backends.heap import values as heap_values
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.kinds import LIST, MAP, VALUE
from mainstay.state.values import ValueType

LONG = ValueType.of("long")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> HeapBackend:
    monkeypatch.setattr(heap_tables, "SHARD_ABOVE", 3)
    infos = [
        StateInfo("value", VALUE, LONG),
        StateInfo("items", LIST, LONG),
        StateInfo("entries", MAP, LONG, LONG),
    ]
    return HeapBackend(infos, LONG, 16, KeyContext())


def restored(backend: HeapBackend, frozen: Any) -> HeapBackend:
    infos = [table.info for table in backend.tables.values()]
    other = HeapBackend(infos, LONG, 16, KeyContext())
    *_, tables = backend.encode(frozen)
    for table in tables:
        for _ in other.apply(table):
            continue
    return other


def write(backend: HeapBackend, keys: range, number: int) -> None:
    value, items, entries = (backend.tables[n] for n in ("value", "items", "entries"))
    for key in keys:
        value.put(key, number)
        items.append(key, [number])
        entries.put_entry(key, number, key)
        if key % 3 == number % 3:
            value.delete(key)
            items.delete(key)
            entries.delete(key)
        if key % 5 == 0:
            entries.remove_entry(key, number)
        backend.relieve()


def test_a_segment_in_many_parts_means_what_one_in_one_part_means(backend: HeapBackend) -> None:
    for number in range(4):
        write(backend, range(40), number)
    frozen = backend.freeze()
    assert all(len(parts) > 1 for parts in frozen.values())
    other = restored(backend, frozen)
    for name in backend.tables:
        assert dict(other.entries(name)) == dict(backend.entries(name))


def test_the_segment_after_a_large_one_starts_in_one_part(backend: HeapBackend) -> None:
    write(backend, range(40), 1)
    backend.freeze()
    backend.tables["value"].put(1, 7)
    (part,) = backend.freeze()["value"]
    assert part.changes == {1: 7}


def test_what_is_written_after_a_freeze_is_not_in_it(backend: HeapBackend) -> None:
    write(backend, range(40), 1)
    frozen = backend.freeze()
    before = {name: dict(backend.entries(name)) for name in ("value",)}
    write(backend, range(40), 2)
    assert dict(restored(backend, frozen).entries("value")) == before["value"]


TEXT = ValueType.of("string")


def test_overwritten_versions_of_large_values_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns hold every version: past some bytes, changes are kept by key, the last of each."""
    monkeypatch.setattr(heap_values, "MOST_COLUMN_BYTES", 1 << 20)
    context = KeyContext()
    backend = HeapBackend([StateInfo("value", VALUE, TEXT)], LONG, 16, context)
    context.current_key = 7
    slice_rows, size = 100, 1000
    for number in range(100):
        for row in range(slice_rows if number % 3 else 10):
            backend.handles["value"].update(f"{number}-{row}-" + "x" * size)
        backend.relieve()
    (parts,) = backend.freeze().values()
    held = sum(
        part.values.nbytes if hasattr(part, "values") else size * len(part.changes)
        for part in parts
    )
    assert held <= (1 << 20) + slice_rows * size
    *_, (table,) = backend.encode({"value": parts})
    assert table.table.column("value")[-1].as_py().startswith("99-9-")


def test_small_values_are_kept_as_columns_as_before() -> None:
    context = KeyContext()
    backend = HeapBackend([StateInfo("value", VALUE, LONG)], LONG, 16, context)
    for _ in range(50):
        for context.current_key in range(2048):
            backend.handles["value"].update(1)
        backend.relieve()
    (parts,) = backend.freeze().values()
    assert all(isinstance(part, heap_values._Columns) for part in parts)
