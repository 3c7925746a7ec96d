"""The RocksDB backend: keyed state beyond memory, in a database on the worker's own disk.

The changes of a subtask are segments, as in the heap backend, and a snapshot is durable when its
segments are. The database follows behind: a segment that is durable is written into it beside the
loop, in order, and until then reads find its changes in memory. A segment that grows too large is
frozen before its epoch ends; the chain does not care. When the chain has grown enough, a checkpoint
of the database, of which only new files are stored, takes the place of the segments in it.

This is the one backend that works with local files. It is reached from the core through the same
calls as the others; what may take long is done by whoever runs ``upkeep`` beside the loop.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mainstay.snapshot.checked import reference
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.heap import Frozen, HeapBackend
from mainstay.state.backends.rocksdb_checkpoint import (
    Descriptor,
    PathOf,
    StoredFiles,
    StoredState,
    by_state,
    download,
    groups_of_files,
    scan_checkpoint,
)
from mainstay.state.backends.rocksdb_database import Database
from mainstay.state.backends.rocksdb_directory import new_directory
from mainstay.state.backends.rocksdb_kinds import TABLES
from mainstay.state.backends.rocksdb_memory import shared_memory
from mainstay.state.backends.rocksdb_settings import RocksSettings
from mainstay.state.backends.rocksdb_writing import write_rows
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.ttl import stored_info
from mainstay.state.values import ValueType

_ACTIVE = 0.15
_WAITING = 0.35
"""Shares of the backend's memory: for the active segment, and for all changes it still holds."""


@dataclass(slots=True, eq=False)
class Generation:
    """A frozen segment that the database does not have yet; ``tables`` once it is durable."""

    number: int
    segment: str
    size_bytes: int
    tables: list[StateTable] | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on the local disk, and what it stands for."""

    directory: Path
    generation: int
    rows: int
    groups: Mapping[str, tuple[int, int]]


class RocksBackend(HeapBackend):
    """The keyed state of one subtask of one operator, in a database of its own."""

    def __init__(
        self,
        infos: Sequence[StateInfo],
        key: ValueType,
        max_parallelism: int,
        context: KeyContext,
        settings: RocksSettings,
        groups: KeyGroupRange,
        name: str,
    ) -> None:
        context.key_type = self.key = key
        self.max_parallelism = max_parallelism
        self.groups = groups
        self.memory = shared_memory(settings)
        self.memory.join(self)
        self.tables = {
            info.name: TABLES[info.kind](info, key, number, max_parallelism)
            for number, info in enumerate(map(stored_info, infos))
        }
        self._open_handles(infos, context)
        self._name = name
        self._database: Database | None = None
        self._files = StoredFiles()
        self._generation = 0
        self._frozen_bytes = 0
        self._waiting: deque[Generation] = deque()

    # ------------------------------------------------------------ on the loop

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Load in bulk what a batch with these keys is about to read."""
        for table in self.tables.values():
            table.prefetch(keys)

    def freeze(self) -> Frozen:
        """Take the active segment away; ``follow`` says which segment of the chain it is."""
        generation = self._generation + 1
        self._frozen_bytes = self._active_bytes()
        frozen = {name: table.freeze_as(generation) for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def follow(self, segment: str) -> None:
        """What was frozen last is this segment of the chain."""
        self._generation += 1
        self._waiting.append(Generation(self._generation, segment, self._frozen_bytes))

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        for tables in super().encode(frozen):
            for rows in tables:
                self.tables[rows.name].learn(rows.table.nbytes, rows.table.num_rows)
            yield tables

    def relieve(self) -> None:
        """Let go of rows that were not used for long. Called between slices."""
        part_bytes = self.memory.part_bytes // max(1, len(self.tables))
        for table in self.tables.values():
            table.keep(part_bytes)

    def _active_bytes(self) -> int:
        return sum(table.weight * table.row_bytes for table in self.tables.values())

    @property
    def is_large(self) -> bool:
        """Whether the active segment should be frozen before its epoch ends."""
        return self._active_bytes() > self.memory.part_bytes * _ACTIVE

    @property
    def is_full(self) -> bool:
        """Whether the changes that wait for the database take more memory than they may."""
        waiting = sum(generation.size_bytes for generation in self._waiting)
        return waiting + self._active_bytes() > self.memory.part_bytes * _WAITING

    @property
    def waiting(self) -> frozenset[str]:
        """The segments that the database does not have yet."""
        return frozenset(generation.segment for generation in self._waiting)

    def durable(self, segment: str, tables: list[StateTable]) -> None:
        """A segment is stored: it may be written into the database when its turn comes."""
        for generation in self._waiting:
            if generation.segment == segment:
                generation.tables = tables

    # ------------------------------------------------------------ beside the loop, one at a time

    def next_generation(self) -> Generation | None:
        """The segment to be written into the database, if it is one's turn."""
        if self._waiting and self._waiting[0].tables is not None:
            return self._waiting[0]
        return None

    def absorb(self, generation: Generation) -> None:
        """Write a segment into the database. Runs beside the loop."""
        database = self._opened()
        for rows in generation.tables or ():
            write_rows(database, self.tables[rows.name], rows, generation.number)

    def absorbed(self, generation: Generation) -> None:
        """The database has it: its changes need not be kept in memory any longer."""
        assert self._waiting[0] is generation, "segments are written in order"
        self._waiting.popleft()
        for table in self.tables.values():
            table.absorbed(generation.number)
        self._attach()

    def take_checkpoint(self) -> Checkpoint:
        """Hard links to all files of the database as it is. Runs beside the loop."""
        directory = new_directory(self.memory.settings.directory, "checkpoint") / "files"
        # What waits is not in it, and nothing is written meanwhile.
        generation = self._waiting[0].number - 1 if self._waiting else self._generation
        database = self._opened()
        database.checkpoint(directory)
        # A file that was replaced since is not known, and so it is one that everybody needs.
        groups = groups_of_files(database.ranges())
        return Checkpoint(directory, generation, database.rows, groups)

    def store_checkpoint(
        self, storage: Storage, checkpoint: Checkpoint, path_of: PathOf, id: str
    ) -> SegmentRef:
        """Store what is new of a checkpoint, and drop it here. Runs beside the loop."""
        try:
            files = self._files.store(storage, checkpoint.directory, path_of, id)
        finally:
            # Its links would keep files on the disk that the database has dropped.
            shutil.rmtree(checkpoint.directory.parent, ignore_errors=True)
        descriptor = Descriptor(
            self.key.ddl,
            self.groups.first,
            self.groups.last,
            checkpoint.generation,
            tuple(StoredState.of(t.info, t.rows.number) for t in self.tables.values()),
            {name: file.path for name, file in files.items()},
            {name: groups for name, groups in checkpoint.groups.items() if name in files},
        )
        data = descriptor.to_bytes()
        path = path_of(f"{id}.json")
        storage.write(path, data)
        first, last = self.groups.first, self.groups.last
        rows = checkpoint.rows
        return SegmentRef(
            id, reference(path, data), first, last, rows, is_base=True, parts=tuple(files.values())
        )

    def _opened(self) -> Database:
        if self._database is None:
            place = new_directory(self.memory.settings.directory, self._name)
            self._database = Database(place, self.memory)
        return self._database

    def _attach(self) -> None:
        for table in self.tables.values():
            table.database = self._database

    def close(self) -> None:
        """Give up the database and its files."""
        for table in self.tables.values():
            table.database = None
            table.forget()
        if self._database is not None:
            self._database.close()

    # ------------------------------------------------------------ restore

    def restore(
        self,
        storage: Storage,
        chain: Sequence[SegmentRef],
        read: Callable[[SegmentRef], Iterable[StateTable]],
        *,
        by_file: bool,
        by_row: bool = False,
    ) -> None:
        """Make the database hold what a chain says. Runs beside the loop, before it begins.

        ``read`` gives the rows of a segment. ``by_file`` allows to go on with stored files,
        ``by_row`` says that ``read`` changes rows, so that none may be copied as it is.
        """
        left = list(chain)
        if by_file and self._is_own(storage, left):
            self._open_stored(storage, left.pop(0))
        database = self._opened()
        for ref in left:
            if ref.parts and not by_row and self._copy(storage, ref):
                continue
            for rows in read(ref):
                if rows.name in self.tables:
                    write_rows(database, self.tables[rows.name], rows, self._generation)
        self._attach()

    def _is_own(self, storage: Storage, chain: Sequence[SegmentRef]) -> bool:
        """Whether a chain begins with a checkpoint of just these key-groups, the only one."""
        if not chain or not chain[0].parts or any(ref.parts for ref in chain[1:]):
            return False
        found = Descriptor.read(storage, chain[0])
        whole = KeyGroupRange(found.first_group, found.last_group)
        named = KeyGroupRange(chain[0].first_group, chain[0].last_group)
        return whole == named == self.groups and self._are_same(found)

    def _are_same(self, found: Descriptor) -> bool:
        """Whether the rows of a checkpoint mean what the rows here mean."""
        return found.key_type == self.key.ddl and all(
            replace(state, number=0) == StoredState.of(self.tables[state.name].info, 0)
            for state in found.states
            if state.name in self.tables
        )

    def _open_stored(self, storage: Storage, ref: SegmentRef) -> None:
        descriptor = Descriptor.read(storage, ref)
        place = new_directory(self.memory.settings.directory, self._name)
        download(storage, ref, descriptor, place)
        self._database = Database(place, self.memory)
        self._files.adopt(descriptor, ref)
        self._generation = descriptor.generation
        self._number_as({state.name: state.number for state in descriptor.states})

    def _number_as(self, stored: Mapping[str, int]) -> None:
        """States have the numbers that the database has for them; new ones get others."""
        free = max(stored.values(), default=-1) + 1
        for name, table in self.tables.items():
            if name in stored:
                table.rows.number = stored[name]
            else:
                table.rows.number, free = free, free + 1

    def _copy(self, storage: Storage, ref: SegmentRef) -> bool:
        """Copy the rows of a checkpoint that may be applied, with the numbers states have here.

        False where they do not mean the same here.
        """
        descriptor = Descriptor.read(storage, ref)
        if not self._are_same(descriptor):
            return False
        names = {state.number: state.name for state in descriptor.states}
        place = new_directory(self.memory.settings.directory, "read")
        for chunk in scan_checkpoint(storage, ref, descriptor, self.memory, place):
            for number, rows in by_state(chunk).items():
                if names[number] in self.tables:
                    self._opened().write(self.tables[names[number]].copied(rows, self._generation))
        return True

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, without making them changes again."""
        write_rows(self._opened(), self.tables[rows.name], rows, self._generation)
        self.tables[rows.name].forget()
        self._attach()
        yield
