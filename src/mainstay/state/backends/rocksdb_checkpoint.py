"""Checkpoints of RocksDB in snapshot storage: which files make one up, and how they come back.

The files with rows are immutable and have names that a database never uses again, so each is
stored once, however many checkpoints hold it: a database knows which of its files are stored, and
one that was restored from a checkpoint knows those of the checkpoint. Nothing here deletes: the
manifests say which files are reached, and retention deletes what no manifest reaches.

The *descriptor* is a small JSON file that says what the rows mean, so that a checkpoint can be read
without the job that wrote it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.manifest import FileRef, SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.rocksdb_database import Database, make_openable
from mainstay.state.backends.rocksdb_kinds import TABLES
from mainstay.state.backends.rocksdb_memory import SharedMemory, shared_memory
from mainstay.state.backends.rocksdb_rows import PREFIX, group_bounds
from mainstay.state.backends.rocksdb_settings import RocksSettings
from mainstay.state.backends.rocksdb_tables import chunks
from mainstay.state.backends.rocksdb_writing import read_rows
from mainstay.state.declaration import StateInfo
from mainstay.state.operations import STORED_AS, columns_of
from mainstay.state.ttl import type_named

CHECKPOINT_FORMAT = 2
"""Since format 2 a descriptor says which key-groups a file has rows of."""
_ROWS = ".sst"
# What a database writes for people, for its log and for its lock is no part of what it holds.
_LEFT_OUT = (".log", "LOG", "LOCK", "IDENTITY", "OPTIONS")

Row = tuple[bytes, bytes]
PathOf = Callable[[str], str]
"""The path in storage for the name of a file."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state as a checkpoint describes it."""

    number: int
    name: str
    kind: str
    value_type: str
    map_key_type: str | None

    @staticmethod
    def of(info: StateInfo, number: int) -> StoredState:
        map_key = None if info.map_key is None else info.map_key.ddl
        return StoredState(number, info.name, STORED_AS[info.kind], info.value.ddl, map_key)

    def info(self) -> StateInfo:
        map_key = None if self.map_key_type is None else type_named(self.map_key_type)
        return StateInfo(self.name, self.kind, type_named(self.value_type), map_key)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What the rows of a checkpoint mean, and what its files are called where they were written."""

    key_type: str
    first_group: int
    last_group: int
    generation: int
    states: tuple[StoredState, ...]
    files: dict[str, str]
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    """From which to which key-group a file has rows, as far as it is known."""

    def to_bytes(self) -> bytes:
        return json.dumps({"format": CHECKPOINT_FORMAT, **asdict(self)}, sort_keys=True).encode()

    @staticmethod
    def read(storage: Storage, ref: SegmentRef) -> Descriptor:
        document = json.loads(read_checked(storage, ref.file))
        found = document.pop("format")
        if found not in range(1, CHECKPOINT_FORMAT + 1):
            raise RestoreError(
                f"{ref.file.path} has checkpoint format {found}; this version of Mainstay reads "
                f"formats up to {CHECKPOINT_FORMAT}. Restore it with a version that wrote it or a "
                "newer one."
            )
        states = tuple(StoredState(**item) for item in document.pop("states"))
        groups = {name: (first, last) for name, (first, last) in document.pop("groups", {}).items()}
        return Descriptor(states=states, groups=groups, **document)

    def needed(self, first_group: int, last_group: int) -> list[str]:
        """The files with rows that may have some of these key-groups."""
        everything = (self.first_group, self.last_group)
        found = {name: self.groups.get(name, everything) for name in self.row_files()}
        return [
            name
            for name, (first, last) in found.items()
            if first <= last_group and first_group <= last
        ]

    def row_files(self) -> list[str]:
        return [name for name in self.files if name.endswith(_ROWS)]


class StoredFiles:
    """Which files of one database are in storage already."""

    def __init__(self) -> None:
        self._stored: dict[str, FileRef] = {}

    def adopt(self, descriptor: Descriptor, ref: SegmentRef) -> None:
        """The database was opened from a checkpoint, and has its files under the same names."""
        by_path = {file.path: file for file in ref.parts}
        for name, path in descriptor.files.items():
            if name.endswith(_ROWS):
                self._stored[name] = by_path[path]

    def store(
        self, storage: Storage, checkpoint: Path, path_of: PathOf, id: str
    ) -> dict[str, FileRef]:
        """Store what is not stored yet of a checkpoint; its files by name."""
        found: dict[str, FileRef] = {}
        for file in sorted(checkpoint.iterdir()):
            if not file.name.endswith(_ROWS):
                if not any(part in file.name for part in _LEFT_OUT):
                    found[file.name] = _store(storage, file, path_of(f"{id}-{file.name}"))
                continue
            if file.name not in self._stored:
                self._stored[file.name] = _store(storage, file, path_of(file.name))
            found[file.name] = self._stored[file.name]
        # A file that the database has dropped never comes back.
        self._stored = {name: ref for name, ref in self._stored.items() if name in found}
        return found


def _store(storage: Storage, file: Path, path: str) -> FileRef:
    data = file.read_bytes()
    storage.write(path, data)
    return reference(path, data)


def groups_of_files(ranges: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[int, int]]:
    """The first and the last key-group in files of which the first and last row keys are known."""
    return {
        name: (PREFIX.unpack_from(first)[0], PREFIX.unpack_from(last)[0])
        for name, (first, last) in ranges.items()
    }


def download(
    storage: Storage,
    ref: SegmentRef,
    descriptor: Descriptor,
    to: Path,
    names: Iterable[str] | None = None,
) -> None:
    """Bring files of a checkpoint back under the names they had, all or some; each is verified."""
    by_path = {file.path: file for file in ref.parts}
    for name in descriptor.files if names is None else names:
        (to / name).write_bytes(read_checked(storage, by_path[descriptor.files[name]]))


def scan_checkpoint(
    storage: Storage,
    ref: SegmentRef,
    descriptor: Descriptor,
    memory: SharedMemory,
    directory: Path,
) -> Iterator[list[Row]]:
    """The rows of a checkpoint that may be applied, some thousand at a time, in order.

    The files that may have some of them are brought into an empty directory, which is removed
    afterwards.
    """
    try:
        needed = descriptor.needed(ref.first_group, ref.last_group)
        if len(needed) == len(descriptor.row_files()):
            download(storage, ref, descriptor, directory)
        else:
            download(storage, ref, descriptor, directory, needed)
            make_openable(directory, memory)
        database = Database(directory, memory, read_only=True)
        yield from chunks(database.scan(*group_bounds(ref.first_group, ref.last_group)))
        database.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_checkpoint(
    storage: Storage, ref: SegmentRef, settings: RocksSettings | None = None
) -> list[StateTable]:
    """The rows of a checkpoint as segments hold them, for whoever keeps them in another way."""
    descriptor = Descriptor.read(storage, ref)
    memory = shared_memory(settings or RocksSettings())
    key = type_named(descriptor.key_type)
    infos = {state.number: state.info() for state in descriptor.states}
    # The groups are read from the rows, so their number does not matter.
    tables = {n: TABLES[info.kind](info, key, n, 1) for n, info in infos.items()}
    parts: dict[int, list[tuple[pa.RecordBatch, Any]]] = {number: [] for number in tables}
    directory = Path(tempfile.mkdtemp(prefix="mainstay-"))
    for chunk in scan_checkpoint(storage, ref, descriptor, memory, directory):
        for number, rows in by_state(chunk).items():
            schema = columns_of(infos[number], key)
            batch = pa.record_batch(read_rows(tables[number], rows), schema=schema)
            groups = np.array([PREFIX.unpack_from(row_key)[0] for row_key, _ in rows], np.uint16)
            parts[number].append((batch, groups))
    return [
        StateTable(
            infos[number].name,
            pa.Table.from_batches([batch for batch, _ in found]),
            np.concatenate([groups for _, groups in found]),
        )
        for number, found in parts.items()
        if found
    ]


def by_state(rows: list[Row]) -> dict[int, list[Row]]:
    """Rows by the number of their state."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(PREFIX.unpack_from(row[0])[1], []).append(row)
    return found
