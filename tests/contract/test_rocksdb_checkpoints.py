"""Checkpoints of RocksDB: what they cost, and that they come back whichever way they are read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import rocksdict

from mainstay.errors import DamagedFileError
from mainstay.runtime.deployment import RestoredState
from mainstay.snapshot.checked import reference
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.contract import Base
from mainstay.state.backends.rocksdb import database as rocksdb_database
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.hashing import groups_of
from mainstay.state.keygroups import range_of, subtask_of
from mainstay.state.values import ValueType
from tests.contract.conftest import IMPLEMENTATIONS, MAX_PARALLELISM, OpenBackend
from tests.key_hashes import hash_keys

KEYS = 1000


def declared() -> dict[str, Any]:
    return {"n": ValueState("long"), "l": ListState("string"), "m": MapState("string", "double")}


def opening(kind: str, storage: MemoryStorage, attempt: int = 0) -> OpenBackend:
    return OpenBackend(IMPLEMENTATIONS[kind], storage, attempt)


def owner(key: int, parallelism: int) -> int:
    group = int(groups_of(hash_keys([key], ValueType.of("long").arrow), MAX_PARALLELISM)[0])
    return subtask_of(group, parallelism, MAX_PARALLELISM)


def write(backends: list[Any], keys: Any, number: int) -> None:
    for key in keys:
        states = backends[owner(key, len(backends))].at(key)
        states.n.update(key * number)
        states.l.add(f"{number}")
        states.m.put(f"entry {number}", key / 2)
        states.m.put("same", None)


def seen(backends: list[Any]) -> dict[str, dict[Any, Any]]:
    """Everything, which nobody may hold twice."""
    found: dict[str, dict[Any, Any]] = {}
    for name in declared():
        merged = found[name] = {}
        for backend in backends:
            part = backend.contents(name)
            assert merged.keys().isdisjoint(part)
            merged.update(part)
    return found


def expected(numbers: list[int], keys: Any = range(KEYS)) -> dict[str, dict[Any, Any]]:
    return {
        "n": {key: key * numbers[-1] for key in keys},
        "l": {key: [f"{number}" for number in numbers] for key in keys},
        "m": {
            key: {**{f"entry {number}": key / 2 for number in numbers}, "same": None}
            for key in keys
        },
    }


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def checkpointed(backends: list[Any]) -> list[Any]:
    """Snapshots whose chains begin with a checkpoint of all there is."""
    for backend in backends:
        backend.snapshot()
        backend.tend()
        # Whether one is due is for the chain to say, and not the question here.
        keyed, id = backend.keyed, f"forced-{backend.epoch}"
        keyed.chain.compacting = keyed.chain.segments
        base = Base(
            id, backend.storage, keyed.owner.file_path, keyed._compacted, keyed._not_compacted
        )
        keyed.backend.begin_base(base)
        backend.tend()
    epoch = [backend.snapshot() for backend in backends]
    assert all(state.chain[0].parts for state in epoch)
    return epoch


def filled(open_backend: OpenBackend, parallelism: int) -> list[Any]:
    backends = open_backend.all(declared(), parallelism, "long")
    write(backends, range(KEYS), 1)
    for backend in backends:
        backend.snapshot()
    write(backends, range(KEYS), 2)
    return backends


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_checkpoint_is_opened_again_and_gone_on_with(storage, parallelism):
    open_backend = opening("rocksdb", storage)
    epoch = checkpointed(filled(open_backend, parallelism))
    restored = open_backend.restore(declared(), epoch, key="long")
    assert seen(restored) == expected([1, 2])
    write(restored, range(KEYS), 3)
    again = open_backend.restore(declared(), [b.snapshot() for b in restored], key="long")
    assert seen(again) == expected([1, 2, 3])
    assert seen(open_backend.restore(declared(), checkpointed(again), key="long")) == expected(
        [1, 2, 3]
    )


def test_what_is_stored_is_not_stored_again_not_even_by_the_next_attempt(storage):
    open_backend = opening("rocksdb", storage)
    (state,) = checkpointed(filled(open_backend, 1))
    (restored,) = open_backend.restore(declared(), [state], key="long")
    before = set(storage.list("state"))
    write([restored], range(0, KEYS, 100), 3)
    (after,) = checkpointed([restored])
    stored = sum(len(storage.read(path)) for path in set(storage.list("state")) - before)
    assert stored < after.chain[0].size_bytes / 4
    shared = {file.path for file in state.chain[0].parts} & {
        file.path for file in after.chain[0].parts
    }
    assert any(path.endswith(".sst") for path in shared)


@pytest.mark.parametrize("path", [[3, 2], [1, 4], [2]])
def test_checkpoints_are_divided_and_joined_without_loss(storage, path):
    open_backend = opening("rocksdb", storage)
    backends, numbers = filled(open_backend, 2), [1, 2]
    for number, parallelism in enumerate(path, 3):
        epoch = checkpointed(backends)
        backends = open_backend.restore(declared(), epoch, parallelism, "long")
        assert seen(backends) == expected(numbers)
        write(backends, range(KEYS), number)
        numbers.append(number)
        for backend in backends:
            backend.keyed.chain.check_invariants()
    epoch = [backend.snapshot() for backend in backends]
    assert seen(open_backend.restore(declared(), epoch, 1, "long")) == expected(numbers)


@pytest.mark.parametrize(("one", "other"), [("heap", "rocksdb"), ("rocksdb", "heap")])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_snapshot_of_one_backend_is_restored_by_the_other(storage, one, other, parallelism):
    first = opening(one, storage)
    backends = filled(first, 2)
    epoch = checkpointed(backends) if one == "rocksdb" else [b.snapshot() for b in backends]
    second = opening(other, storage, first.attempt)
    restored = second.restore(declared(), epoch, parallelism, "long")
    assert seen(restored) == expected([1, 2])
    write(restored, range(KEYS), 3)
    for backend in restored:
        backend.snapshot()
        backend.compact(0)
    epoch = [backend.snapshot() for backend in restored]
    back = opening(one, storage, second.attempt)
    assert seen(back.restore(declared(), epoch, 2, "long")) == expected([1, 2, 3])


def test_a_rewritten_checkpoint_depends_on_no_older_file(storage):
    open_backend = opening("rocksdb", storage)
    epoch = checkpointed(filled(open_backend, 1))
    (moved,) = open_backend.restore(declared(), epoch, key="long", rewrite=True)
    state = moved.snapshot()
    for path in {file.path for old in epoch for ref in old.chain for file in ref.files()}:
        storage.delete(path)
    assert seen(open_backend.restore(declared(), [state], key="long")) == expected([1, 2])


def test_a_state_that_is_added_later_does_not_meet_the_rows_of_another(storage):
    open_backend = opening("rocksdb", storage)
    epoch = checkpointed(filled(open_backend, 1))
    more = {"a": ValueState("long"), **declared(), "z": ListState("string")}
    (restored,) = open_backend.restore(more, epoch, key="long")
    assert restored.contents("a") == restored.contents("z") == {}
    restored.at(5).a.update(1)
    restored.at(5).z.add("x")
    (again,) = open_backend.restore(more, checkpointed([restored]), key="long")
    assert (again.contents("a"), again.contents("z")) == ({5: 1}, {5: ["x"]})
    assert seen([again]) == expected([1, 2])


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_damaged_file_of_a_checkpoint_is_named(storage, parallelism):
    open_backend = opening("rocksdb", storage)
    epoch = checkpointed(filled(open_backend, 1))
    path = next(file.path for file in epoch[0].chain[0].parts if file.path.endswith(".sst"))
    data = bytearray(storage.read(path))
    data[len(data) // 2] ^= 1
    storage.write(path, data)
    with pytest.raises(DamagedFileError, match=path):
        open_backend.restore(declared(), epoch, parallelism, key="long")


class Reads(MemoryStorage):
    """Remembers what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def read(self, path: str, *part: Any) -> bytes:
        self.paths.append(path)
        return super().read(path, *part)


def in_small_files(monkeypatch: pytest.MonkeyPatch, storage: MemoryStorage) -> list[Any]:
    """An epoch of one subtask whose rows lie in many files, by key-group."""
    monkeypatch.setattr(rocksdb_database, "_TARGET_FILE_BYTES", 4096)
    (backend,) = filled(opening("rocksdb", storage), 1)
    backend.snapshot()
    backend.tend()
    options = rocksdict.CompactOptions()
    options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
    backend.keyed.backend._database._db.compact_range(None, None, options)
    return checkpointed([backend])


@pytest.mark.parametrize("kind", ["rocksdb", "heap"])
def test_a_subtask_reads_only_files_that_may_have_its_key_groups(monkeypatch, kind):
    storage = Reads()
    epoch = in_small_files(monkeypatch, storage)
    rows = {ref.path for ref in epoch[0].chain[0].parts if ref.path.endswith(".sst")}
    assert len(rows) > 4
    open_backend = opening(kind, storage, attempt=10)
    read_by: list[set[str]] = []
    parts = []
    for subtask in range(4):
        storage.paths.clear()
        groups = range_of(subtask, 4, MAX_PARALLELISM)
        chain = tuple(ref.clipped(groups.first, groups.last) for ref in epoch[0].chain)
        start = RestoredState(tuple(ref for ref in chain if ref is not None))
        parts.append(open_backend(declared(), "long", subtask, 4, start))
        read_by.append(rows.intersection(storage.paths))
    assert set.union(*read_by) == rows
    assert all(len(read) < len(rows) for read in read_by)
    # Neighbours share the file in which the groups of the one end and those of the other begin.
    assert sum(len(read) for read in read_by) <= len(rows) + 3
    assert seen(parts) == expected([1, 2])


def test_a_descriptor_of_the_version_that_knew_no_key_groups_is_read(monkeypatch, storage):
    epoch = in_small_files(monkeypatch, storage)
    base = epoch[0].chain[0]
    document = json.loads(storage.read(base.file.path))
    assert document.pop("groups")
    data = json.dumps({**document, "format": 1}).encode()
    storage.write(base.file.path, data)
    old = replace(base, file=reference(base.file.path, data))
    epoch = [replace(epoch[0], chain=(old, *epoch[0].chain[1:]))]
    assert seen(opening("rocksdb", storage, 10).restore(declared(), epoch, 2, "long")) == expected(
        [1, 2]
    )
