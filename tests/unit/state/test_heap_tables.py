"""The active segment in one part and in many."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.state.backends import heap_tables
from mainstay.state.backends.heap import HeapBackend
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.values import ValueType

LONG = ValueType.of("long")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> HeapBackend:
    monkeypatch.setattr(heap_tables, "SHARD_ABOVE", 3)
    infos = [
        StateInfo("value", "value", LONG),
        StateInfo("items", "list", LONG),
        StateInfo("entries", "map", LONG, LONG),
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
