"""State on a disk keeps within its memory from the first row on, whatever the size of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mainstay.state.backends.cached.row_sizes import Looks, held_bytes
from mainstay.state.backends.cached.tables import CachedTable
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.declaration import ListState, MapState, ValueState
from tests.contract.conftest import MEMORY_DISK, BackendUnderTest, OpenBackend

MEMORY = 8 << 20
VALUE = 50_000
STATES: dict[str, Any] = {
    "text": ValueState("string"),
    "pickled": ValueState(),
    "items": ListState("binary"),
    "entries": MapState("string", "string"),
}


@pytest.fixture(params=STATES)
def declared(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {request.param: STATES[request.param]}


@pytest.fixture
def open_backend() -> Iterator[OpenBackend]:
    open_backend = OpenBackend(RocksSettings(MEMORY, MEMORY_DISK))
    yield open_backend
    for member in open_backend.opened:
        member.release()


def put(backend: BackendUnderTest, key: int) -> None:
    states = backend.at(f"k{key}")
    text = f"{key:05d}" * (VALUE // 5)
    for name in vars(states):
        if name == "items":
            states.items.add(text.encode())
        elif name == "entries":
            states.entries.put("m", text)
        else:
            getattr(states, name).update(text)


def read(backend: BackendUnderTest, key: int) -> None:
    for handle in vars(backend.at(f"k{key}")).values():
        assert len(dict(handle.items()) if hasattr(handle, "items") else handle.get()) > 0


def spills(backend: BackendUnderTest, keys: int) -> int:
    """How many segments are frozen before the first epoch, while keys are written."""
    found = 0
    for key in range(keys):
        put(backend, key)
        backend.member.relieve()
        if (segment := backend.keyed.spill()) is not None:
            *_, tables = backend.keyed.encode(segment)
            ref = backend.keyed.write(backend.storage, segment.id, tables)
            backend.keyed.written(segment, ref, tables)
            found += 1
    return found


def most_cached(backend: BackendUnderTest, keys: int) -> int:
    (table,) = backend.keyed.backend.tables.values()
    most = 0
    for key in range(keys):
        read(backend, key)
        backend.member.relieve()
        most = max(most, len(table.live) + len(table.live._older))
    return most


def test_large_values_are_spilled_before_the_first_epoch(
    open_backend: OpenBackend, declared: dict[str, Any]
) -> None:
    # Together they are more than the memory, of which a segment may take a small part.
    assert spills(open_backend(declared), 200) > 10


def test_large_values_that_are_only_read_leave_the_cache_again(
    open_backend: OpenBackend, declared: dict[str, Any]
) -> None:
    backend = open_backend(declared)
    for key in range(300):
        put(backend, key)
    restored = open_backend.reopen(declared, backend.snapshot())
    assert most_cached(restored, 300) * VALUE < MEMORY


def test_a_backend_that_is_closed_leaves_its_memory_to_the_others(
    open_backend: OpenBackend,
) -> None:
    alone = open_backend(STATES)
    disk = alone.keyed.backend.disk
    part = disk.part_bytes
    other = open_backend(STATES)
    assert disk.part_bytes < part
    other.member.release()
    assert disk.part_bytes == part


@pytest.mark.mutation
def test_a_table_that_does_not_look_at_its_rows_is_noticed(
    open_backend: OpenBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CachedTable, "_look", lambda table: None)
    assert spills(open_backend({"text": STATES["text"]}), 200) == 0


def test_looks_at_a_few_items_say_how_large_all_are() -> None:
    assert held_bytes("x" * 1000) == pytest.approx(1000, rel=0.1)
    assert held_bytes(["x" * 1000] * 1000) == pytest.approx(1_000_000, rel=0.1)
    assert held_bytes(dict.fromkeys(range(1000), "x" * 1000)) == pytest.approx(1_000_000, rel=0.1)
    assert held_bytes((1, ("y" * 500, "z" * 500))) == pytest.approx(1000, rel=0.2)
    assert held_bytes(None) < 100


def test_one_large_row_among_many_moves_the_mean_by_its_share() -> None:
    looks = Looks()
    for _ in range(1000):
        looks.saw(100)
    looks.saw(64_100)
    assert looks.mean_bytes == pytest.approx(1100)
    for _ in range(1000):
        looks.saw(100)
    assert looks.mean_bytes == pytest.approx(100, rel=0.01)
