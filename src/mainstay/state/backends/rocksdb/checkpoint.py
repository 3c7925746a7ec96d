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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.copied_storage import local_link, write_file
from mainstay.snapshot.manifest import FileRef, SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.rows import PREFIX, group_bounds
from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.cached.stored_rows import Row
from mainstay.state.backends.cached.tables import chunks
from mainstay.state.backends.cached.writing import read_rows
from mainstay.state.backends.rocksdb.disk import ROWS, Disk, Files, LocalCheckpoint
from mainstay.state.backends.rocksdb.rocks_disk import RocksDisk
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.info import StateInfo
from mainstay.state.kinds import kind_named
from mainstay.state.operations import columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import type_named

CHECKPOINT_FORMAT = 4
NAMESPACES_FORMAT = 3
GROUPS_FORMAT = 2
"""Since format 2 a descriptor says which key-groups a file has rows of. Format 3 is written where
some state has a namespace, and format 4 where there are rows for the order of timers."""

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
    namespace_type: str | None = None
    has_order: bool = False
    """Whether there are rows beside its own that put it in order, see ``timer_rows``."""

    @staticmethod
    def of(info: StateInfo, number: int, *, has_order: bool = False) -> StoredState:
        map_key = None if info.map_key is None else info.map_key.ddl
        namespace = None if info.namespace is None else info.namespace.ddl
        stored_as = info.kind.stored_as
        types = info.value.ddl, map_key, namespace
        return StoredState(number, info.name, stored_as, *types, has_order)

    def info(self) -> StateInfo:
        map_key = None if self.map_key_type is None else type_named(self.map_key_type)
        namespace = None if self.namespace_type is None else type_named(self.namespace_type)
        kind, value = kind_named(self.kind), type_named(self.value_type)
        return StateInfo(self.name, kind, value, map_key, namespace=namespace)

    def document(self) -> dict[str, Any]:
        """What is stored of it. Versions that knew no namespace find none, nor an order."""
        found = asdict(self)
        if self.namespace_type is None:
            del found["namespace_type"]
        if not self.has_order:
            del found["has_order"]
        return found


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
        states = [state.document() for state in self.states]
        document = {**asdict(self), "format": self._format(), "states": states}
        return json.dumps(document, sort_keys=True).encode()

    def _format(self) -> int:
        """The oldest format that says all of it, so that older versions read what they can."""
        if any(state.has_order for state in self.states):
            return CHECKPOINT_FORMAT
        has_namespaces = any(state.namespace_type is not None for state in self.states)
        return NAMESPACES_FORMAT if has_namespaces else GROUPS_FORMAT

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
        return [name for name in self.files if name.endswith(ROWS)]


class StoredFiles:
    """Which files of one database are in storage already."""

    def __init__(self) -> None:
        self._stored: dict[str, FileRef] = {}

    def adopt(self, descriptor: Descriptor, ref: SegmentRef) -> None:
        """The database was opened from a checkpoint, and has its files under the same names."""
        by_path = {file.path: file for file in ref.parts}
        for name, path in descriptor.files.items():
            if name.endswith(ROWS):
                self._stored[name] = by_path[path]

    def store(
        self, storage: Storage, checkpoint: LocalCheckpoint, path_of: PathOf, id: str
    ) -> dict[str, FileRef]:
        """Store what is not stored yet of a checkpoint; its files by name."""
        found: dict[str, FileRef] = {}
        for name in checkpoint.names():
            if not name.endswith(ROWS):
                path = path_of(f"{id}-{name}")
                found[name] = _store(storage, checkpoint, name, path)
                continue
            if name not in self._stored:
                self._stored[name] = _store(storage, checkpoint, name, path_of(name))
            found[name] = self._stored[name]
        # A file that the database has dropped never comes back.
        self._stored = {name: ref for name, ref in self._stored.items() if name in found}
        return found


def _store(storage: Storage, checkpoint: LocalCheckpoint, name: str, path: str) -> FileRef:
    data = checkpoint.read(name)
    write_file(storage, path, data, checkpoint.file(name))
    return reference(path, data)


def groups_of_files(ranges: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[int, int]]:
    """The first and the last key-group in files of which the first and last row keys are known."""
    return {
        name: (PREFIX.unpack_from(first)[0], PREFIX.unpack_from(last)[0])
        for name, (first, last) in ranges.items()
    }


def files_of(
    storage: Storage, ref: SegmentRef, descriptor: Descriptor, names: Iterable[str] | None = None
) -> Files:
    """Files of a checkpoint under the names they had, all or some; each is verified."""
    by_path = {file.path: file for file in ref.parts}
    for name in descriptor.files if names is None else names:
        ref_of_file = by_path[descriptor.files[name]]
        # A database changes its other files, and would change the copy.
        link = local_link(storage, ref_of_file) if name.endswith(ROWS) else None
        yield name, read_checked(storage, ref_of_file) if link is None else link


def scan_checkpoint(
    storage: Storage, ref: SegmentRef, descriptor: Descriptor, disk: Disk
) -> Iterator[list[Row]]:
    """The rows of a checkpoint that may be applied, some thousand at a time, in order.

    Only the files that may have some of them are brought to the disk.
    """
    needed = descriptor.needed(ref.first_group, ref.last_group)
    is_whole = len(needed) == len(descriptor.row_files())
    files = files_of(storage, ref, descriptor, None if is_whole else needed)
    database = disk.open_to_read(files, is_whole=is_whole)
    try:
        with closing(database.scan(*group_bounds(ref.first_group, ref.last_group))) as rows:
            yield from chunks(rows)
    finally:
        database.close()


def read_checkpoint(
    storage: Storage, ref: SegmentRef, disk: Disk | None = None
) -> list[StateTable]:
    """The rows of a checkpoint as segments hold them, for other backends and readers."""
    descriptor = Descriptor.read(storage, ref)
    key = type_named(descriptor.key_type)
    infos = {state.number: state.info() for state in descriptor.states}
    # The groups are read from the rows, so their number does not matter.
    keys = {number: StoredKey.of(key, info.namespace) for number, info in infos.items()}
    tables = {n: TABLES[info.kind.shape](info, keys[n], n, 1) for n, info in infos.items()}
    parts: dict[int, list[tuple[pa.RecordBatch, Any]]] = {number: [] for number in tables}
    for chunk in scan_checkpoint(storage, ref, descriptor, disk or RocksDisk(RocksSettings())):
        for number, rows in by_state(chunk).items():
            if number not in infos:
                continue
            schema = columns_of(infos[number], key)
            batch = keys[number].batch(read_rows(tables[number], rows), schema)
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
