"""State of more bytes than one Arrow array can hold, with a limit small enough to test."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import StateTypeError
from mainstay.runtime.coordinator.savepoint_writing import KeyedPiece
from mainstay.schema import sizes
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.savepoint_files import read_keyed
from mainstay.state.backends import changes
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.segments import read_chain
from mainstay.state.upgrade import schema_of
from tests.contract.conftest import IMPLEMENTATIONS, OpenBackend

LIMIT = 20_000
KEYS = 40

STATES: dict[str, Any] = {
    "text": ValueState("string"),
    "data": ValueState("binary"),
    "row": ValueState("struct<a:long,b:string>"),
    "pickled": ValueState(),
    "items": ListState("string"),
    "rows": ListState("struct<a:string>"),
    "entries": MapState("string", "string"),
    "lasting": ValueState("string", ttl="1h"),
    "number": ValueState("long"),
}


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays end at LIMIT, as if that were their 2 GiB: what is put together beyond it fails."""
    monkeypatch.setattr(sizes, "ARRAY_BYTES", LIMIT)
    monkeypatch.setattr(changes, "FIRST_ROWS", 2048)


def text(key: int, version: int) -> str:
    return f"{key}-{version}-" + "x" * 3000


def fill(backend: Any, version: int, keys: Any = range(KEYS)) -> None:
    for key in keys:
        states = backend.at(f"k{key}")
        value = text(key, version)
        states.text.update(value)
        states.data.update(value.encode())
        states.row.update((key, value))
        states.pickled.update([value])
        states.items.extend([value, value])
        states.rows.add((value,))
        states.entries.put(f"m{version}", value)
        states.lasting.update(value)
        states.number.update(version)


def contents(backend: Any) -> dict[str, Any]:
    return {name: backend.contents(name) for name in STATES}


def test_more_than_an_array_holds_is_stored_and_restored(open_backend: OpenBackend) -> None:
    backend = open_backend(STATES)
    fill(backend, 0)
    epoch = backend.snapshot()
    fill(backend, 1, range(0, KEYS, 2))
    epoch, before = backend.snapshot(), contents(backend)
    restored = open_backend.reopen(STATES, epoch)
    assert contents(restored) == before
    assert restored.at("k2").entries.get("m1") == text(2, 1)


@pytest.mark.parametrize("key_groups", ["many", "one"])
def test_more_than_an_array_holds_is_compacted(open_backend: OpenBackend, key_groups: str) -> None:
    backend = open_backend(STATES)
    # One key with all versions of a list is in one key-group, which alone is beyond the limit.
    keys = range(KEYS) if key_groups == "many" else [7]
    for version in range(6):
        fill(backend, version, keys)
        backend.snapshot()
    assert backend.compact()
    epoch, before = backend.snapshot(), contents(backend)
    restored = open_backend.reopen(STATES, epoch)
    assert contents(restored) == before


def test_more_than_an_array_holds_is_rescaled(open_backend: OpenBackend) -> None:
    backend = open_backend(STATES)
    fill(backend, 0)
    stored, before = backend.snapshot(), contents(backend)
    parts = open_backend.restore(STATES, [stored], parallelism=3)
    found = [contents(part) for part in parts]
    for name, expected in before.items():
        assert {key: kept for each in found for key, kept in each[name].items()} == expected


def test_more_than_an_array_holds_is_in_a_savepoint(open_backend: OpenBackend) -> None:
    backend = open_backend(STATES)
    fill(backend, 0)
    backend.snapshot()
    fill(backend, 1)
    epoch = backend.snapshot()
    target = MemoryStorage()
    infos = backend.member.spec.states
    piece = KeyedPiece("totals", 0, tuple(map(schema_of, infos)), epoch.chain)
    written = piece.write(open_backend.storage, target)
    assert sorted(name for _, name, _ in written) == sorted(STATES)
    for _, name, file in written:
        tables = [rows.table for rows in read_keyed(target, file.file, 0, 127)]
        assert sum(table.num_rows for table in tables) == KEYS * (2 if name == "entries" else 1)
        if name == "items":
            lists = [each for table in tables for each in table.column("value").to_pylist()]
            assert {len(each) for each in lists} == {4}


def test_a_list_beyond_what_an_array_holds_is_stored_in_pieces(open_backend: OpenBackend) -> None:
    states = {"items": ListState("string")}
    backend = open_backend(states)
    expected = [text(n, 0) for n in range(30)]
    backend.at("a").items.update(expected)
    restored = open_backend.reopen(states, backend.snapshot())
    assert restored.at("a").items.get() == expected
    restored.at("a").items.update(expected[:20])
    again = open_backend.reopen(states, restored.snapshot())
    assert again.at("a").items.get() == expected[:20]


def test_a_list_that_no_row_of_a_savepoint_can_hold_is_named(open_backend: OpenBackend) -> None:
    states = {"items": ListState("string")}
    backend = open_backend(states)
    backend.at("the key").items.update([text(n, 0) for n in range(30)])
    epoch = backend.snapshot()
    schemas = tuple(map(schema_of, backend.member.spec.states))
    piece = KeyedPiece("totals", 0, schemas, epoch.chain)
    with pytest.raises(StateTypeError, match=r"'items': the list of key 'the key' takes more"):
        piece.write(open_backend.storage, MemoryStorage())


def test_tables_that_are_read_fit_into_arrays(open_backend: OpenBackend) -> None:
    backend = open_backend(STATES)
    fill(backend, 0)
    epoch = backend.snapshot()
    for table in read_chain(open_backend.storage, epoch.chain):
        assert table.table.nbytes <= LIMIT or table.table.num_rows == 1
        assert len(table.groups) == table.table.num_rows


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["value", "list"])
def test_more_than_two_gibibytes_are_stored_compacted_saved_and_restored(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    open_backend = OpenBackend(IMPLEMENTATIONS["heap"])
    value = bytes(1 << 27)
    declared = {"data": ValueState("binary") if kind == "value" else ListState("binary")}
    backend = open_backend(declared)
    for version in range(2):
        for key in range(18):
            data = backend.at(f"k{key}").data
            data.update(value[version:] if kind == "value" else [value[version:]])
        backend.snapshot()
    assert backend.compact()
    epoch = backend.snapshot()
    assert len(epoch.chain) == 1
    schemas = tuple(map(schema_of, backend.member.spec.states))
    target = MemoryStorage()
    ((_, _, file),) = KeyedPiece("totals", 0, schemas, epoch.chain).write(
        open_backend.storage, target
    )
    assert file.rows == 18
    restored = open_backend.reopen(declared, epoch)
    for key in range(18):
        found = restored.at(f"k{key}").data.get()
        assert len(found if kind == "value" else found[0]) == (1 << 27) - 1
