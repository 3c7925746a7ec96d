"""The RocksDB backend: keyed state beyond memory, in a database on the worker's own disk.

The changes of a subtask are segments, as in the heap backend, and a snapshot is durable when its
segments are. The database follows behind: a segment that is durable is written into it in the
background, in order, and until then reads find its changes in memory. A segment that grows too
large is frozen before its epoch ends; the chain does not care. When the chain has grown enough, a
checkpoint of the database, of which only new files are stored, takes the place of the segments in
it.

What may take long runs in the background, one thing at a time (``next_work``). Only the storing of
a checkpoint, which the database has no part in any more, goes on along with other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.errors import MainstayError
from mainstay.snapshot.checked import reference
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.dropping import pairs_among, row_keys_in, with_deletions
from mainstay.state.backends.cached.writing import write_rows
from mainstay.state.backends.contract import Base, Frozen, Place, Restore, Work
from mainstay.state.backends.over_tables import BackendOverTables
from mainstay.state.backends.rocksdb.adoption import Adoption
from mainstay.state.backends.rocksdb.checkpoint import (
    Descriptor,
    PathOf,
    StoredFiles,
    StoredState,
    files_of,
    groups_of_files,
)
from mainstay.state.backends.rocksdb.disk import Database, Disk, LocalCheckpoint
from mainstay.state.backends.rocksdb.generations import Generation, Generations
from mainstay.state.backends.rocksdb.shapes import tables_of
from mainstay.state.backends.rocksdb.timers import CachedTimers
from mainstay.state.backends.tables import Tables

_ACTIVE = 0.15
_WAITING = 0.35
"""Shares of the backend's memory: for the active segment, and for all changes it still holds."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on the local disk, and the last generation in it."""

    local: LocalCheckpoint
    generation: int


class RocksBackend(BackendOverTables):
    """The keyed state of one subtask of one operator, in a database of its own."""

    def __init__(self, place: Place, disk: Disk) -> None:
        tables = tables_of(place)
        super().__init__(
            Tables(place.states, place.key, place.max_parallelism, place.context, tables)
        )
        self.key = place.key
        self.groups = place.groups
        self.disk = disk
        disk.join(self)
        self.is_busy = False
        self.generations = Generations()
        self._wanted: Base | None = None
        self._to_store: tuple[Base, Checkpoint] | None = None
        self._broken: Exception | None = None
        self._name = place.name
        self._database: Database | None = None
        self._files = StoredFiles()
        self._frozen_bytes = 0

    # ------------------------------------------------------------ on the loop

    def prefetch(self, keys: Iterable[Any]) -> None:
        """Load in bulk what a batch with these keys is about to read."""
        for table in self.tables.values():
            table.prefetch(keys)

    def freeze(self) -> Frozen:
        """Take the active segment away; ``frozen_as`` says which segment of the chain it is."""
        generation = self.generations.last + 1
        self._frozen_bytes = self._active_bytes()
        frozen = {name: table.freeze_as(generation) for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def frozen_as(self, segment: str) -> None:
        """What was frozen last is this segment of the chain."""
        self.generations.add(segment, self._frozen_bytes)

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        for tables in super().encode(frozen):
            for rows in tables:
                self.tables[rows.name].learn(rows.table.nbytes, rows.table.num_rows)
            yield tables

    def relieve(self) -> None:
        """Drop cached rows that were not used for long. Called between slices."""
        part_bytes = self.disk.part_bytes // max(1, len(self.tables))
        for table in self.tables.values():
            table.keep(part_bytes)

    def _active_bytes(self) -> int:
        return sum(table.weight * table.row_bytes for table in self.tables.values())

    @property
    def is_large(self) -> bool:
        """Whether the active segment should be frozen before its epoch ends."""
        return self._active_bytes() > self.disk.part_bytes * _ACTIVE

    @property
    def is_full(self) -> bool:
        """Whether the changes that wait for the database take more memory than they may."""
        waiting = self.generations.size_bytes
        return waiting + self._active_bytes() > self.disk.part_bytes * _WAITING

    @property
    def not_absorbed(self) -> frozenset[str]:
        """The segments that the database does not have yet."""
        return self.generations.segments

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        """A segment is stored: it may be written into the database when its turn comes."""
        self.generations.durable(segment, tables)

    # ------------------------------------------------------------ in the background

    def next_work(self) -> Work | None:
        """A checkpoint that is wanted, or the next segment for the database."""
        if self._broken is not None:
            raise MainstayError(
                f"the local database cannot be written: {str(self._broken).rstrip('.')}. Is its "
                "disk full? RocksDB(directory=...) names another."
            ) from self._broken
        if self._to_store is not None:
            (base, checkpoint), self._to_store = self._to_store, None
            return self._storing(base, checkpoint)
        if self.is_busy:
            return None
        if self._wanted is not None:
            base, self._wanted = self._wanted, None
            return self._checkpointing(base)
        generation = self.generations.next()
        return None if generation is None else self._absorbing(generation)

    def begin_base(self, base: Base) -> bool:
        """The base of a database's chain is a checkpoint of it.

        What the database does not have yet stays in the chain, and what it has is durable: so a
        run that reaches the oldest segment stands for just what the database holds.
        """
        self._wanted = base
        return True

    def _absorbing(self, generation: Generation) -> Work:
        def done(_: Any) -> None:
            self.is_busy = False
            self.absorbed(generation)

        def failed(error: Exception) -> None:
            self._broken = error

        self.is_busy = True
        return Work(lambda: self.absorb(generation), done, failed)

    def _checkpointing(self, base: Base) -> Work:
        def done(checkpoint: Checkpoint) -> None:
            # From here on the database may change again; the links are what is stored.
            self.is_busy = False
            self._to_store = (base, checkpoint)

        def failed(error: Exception) -> None:
            self.is_busy = False
            base.failed(error)

        self.is_busy = True
        return Work(self.take_checkpoint, done, failed)

    def _storing(self, base: Base, checkpoint: Checkpoint) -> Work:
        def store() -> SegmentRef:
            return self.store_checkpoint(base.storage, checkpoint, base.path_of, base.id)

        return Work(store, base.stored, base.failed)

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef | None:
        return self.store_checkpoint(storage, self.take_checkpoint(), path_of, id)

    def absorb(self, generation: Generation) -> None:
        """Write a segment into the database. Runs in the background."""
        database = self._opened()
        for rows in generation.tables or ():
            table = self.tables[rows.name]
            if rows.drops:
                rows = with_deletions(table, rows, table.gone_in(generation.number))
            write_rows(database, table, rows, generation.number)

    def absorbed(self, generation: Generation) -> None:
        """The database has it: its changes need not be kept in memory any longer."""
        self.generations.absorbed(generation)
        for table in self.tables.values():
            table.absorbed(generation.number)
        self._attach()

    def take_checkpoint(self) -> Checkpoint:
        """All files of the database as it is. Runs in the background."""
        # What waits is not in it, and nothing is written meanwhile.
        return Checkpoint(self._opened().checkpoint(), self.generations.last_absorbed)

    def store_checkpoint(
        self, storage: Storage, checkpoint: Checkpoint, path_of: PathOf, id: str
    ) -> SegmentRef:
        """Store what is new of a checkpoint, and drop it here. Runs in the background."""
        local = checkpoint.local
        try:
            files = self._files.store(storage, local, path_of, id)
        finally:
            local.remove()
        groups = groups_of_files(local.ranges)
        descriptor = Descriptor(
            self.key.ddl,
            self.groups.first,
            self.groups.last,
            checkpoint.generation,
            tuple(
                StoredState.of(t.info, t.rows.number, has_order=isinstance(t, CachedTimers))
                for t in self.tables.values()
            ),
            {name: file.path for name, file in files.items()},
            {name: each for name, each in groups.items() if name in files},
        )
        data = descriptor.to_bytes()
        path = path_of(f"{id}.json")
        storage.write(path, data)
        first, last = self.groups.first, self.groups.last
        return SegmentRef(
            id,
            reference(path, data),
            first,
            last,
            local.rows,
            is_base=True,
            parts=tuple(files.values()),
            format=self.disk.format,
        )

    def _opened(self) -> Database:
        if self._database is None:
            self._database = self.disk.create(self._name)
        return self._database

    def _attach(self) -> None:
        for table in self.tables.values():
            table.database = self._database

    def close(self) -> None:
        """Give up the database and its files, and its part of the memory."""
        self.disk.leave(self)
        for table in self.tables.values():
            table.database = None
            table.forget()
        if self._database is not None:
            self._database.close()

    # ------------------------------------------------------------ restore

    def restore(self, start: Restore) -> list[StateTable]:
        """Make the database hold what a chain says."""
        adoption = Adoption(self.tables, self.key.ddl, self.groups, self.disk)
        left = list(start.chain)
        own = adoption.own_checkpoint(start)
        if own is not None:
            self._open_stored(start.storage, left.pop(0), own)
            adoption.number_as(own.states)
        database = self._opened()
        for ref in left:
            copied = None
            if not start.is_converted:
                copied = adoption.copied(start.storage, ref, self.generations.last)
            if copied is not None:
                for changes in copied:
                    database.write(changes)
                continue
            for rows in start.read(ref):
                if rows.name in self.tables:
                    self._write_stored(rows)
        self._attach()
        for table in self.tables.values():
            table.restored()
        return []

    def _open_stored(self, storage: Storage, ref: SegmentRef, found: Descriptor) -> None:
        self._database = self.disk.open(self._name, files_of(storage, ref, found))
        self._files.adopt(found, ref)
        self.generations.last = found.generation

    def _write_stored(self, rows: StateTable) -> None:
        """Write rows of a stored segment into the database."""
        database, table = self._opened(), self.tables[rows.name]
        if rows.drops:
            row_keys = row_keys_in(table, database, rows.drops)
            rows = with_deletions(table, rows, pairs_among(table, row_keys, rows.drops))
        write_rows(database, table, rows, self.generations.last)

    def mark_all_changed(self, applied: Sequence[StateTable] = ()) -> None:
        """A base stands for everything already: see ``base``."""

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, without making them changes again."""
        self._write_stored(rows)
        self.tables[rows.name].forget()
        self._attach()
        yield
