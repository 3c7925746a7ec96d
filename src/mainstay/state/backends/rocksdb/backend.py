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

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mainstay.errors import MainstayError
from mainstay.snapshot.checked import reference
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import Base, Frozen, Place, Restore, Work
from mainstay.state.backends.rocksdb.checkpoint import (
    Descriptor,
    PathOf,
    StoredFiles,
    StoredState,
    by_state,
    files_of,
    groups_of_files,
    scan_checkpoint,
)
from mainstay.state.backends.rocksdb.disk import Database, Disk, LocalCheckpoint
from mainstay.state.backends.rocksdb.kinds import TABLES
from mainstay.state.backends.rocksdb.writing import write_rows
from mainstay.state.backends.tables import Tables
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.ttl import stored_info

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
    """A checkpoint on the local disk, and the last generation in it."""

    local: LocalCheckpoint
    generation: int


class RocksBackend:
    """The keyed state of one subtask of one operator, in a database of its own."""

    is_remote = has_own_bases = False
    trouble: Exception | None = None

    def __init__(self, place: Place, disk: Disk) -> None:
        self.key = place.key
        self.groups = place.groups
        self.disk = disk
        disk.join(self)
        tables = {
            info.name: TABLES[info.kind](info, place.key, number, place.max_parallelism)
            for number, info in enumerate(map(stored_info, place.states))
        }
        self.tables = Tables(place.states, place.key, place.max_parallelism, place.context, tables)
        self.handles = self.tables.handles
        self.expiring = self.tables.expiring
        self.is_busy = False
        self._wanted: Base | None = None
        self._to_store: tuple[Base, Checkpoint] | None = None
        self._broken: Exception | None = None
        self._name = place.name
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

    def read_ahead(self, keys: Sequence[Any]) -> Work | None:
        return None

    def freeze(self) -> Frozen:
        """Take the active segment away; ``frozen_as`` says which segment of the chain it is."""
        generation = self._generation + 1
        self._frozen_bytes = self._active_bytes()
        frozen = {name: table.freeze_as(generation) for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def frozen_as(self, segment: str) -> None:
        """What was frozen last is this segment of the chain."""
        self._generation += 1
        self._waiting.append(Generation(self._generation, segment, self._frozen_bytes))

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        for tables in self.tables.encode(frozen):
            for rows in tables:
                self.tables[rows.name].learn(rows.table.nbytes, rows.table.num_rows)
            yield tables

    def leftovers(self, frozen: Frozen) -> list[Any]:
        return self.tables.leftovers(frozen)

    def entries(self, name: str) -> Iterator[tuple[Any, Any]]:
        return self.tables.entries_of(name)

    def peek(self, name: str, key: Any) -> Any:
        return self.tables.peek(name, key)

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
        waiting = sum(generation.size_bytes for generation in self._waiting)
        return waiting + self._active_bytes() > self.disk.part_bytes * _WAITING

    @property
    def not_absorbed(self) -> frozenset[str]:
        """The segments that the database does not have yet."""
        return frozenset(generation.segment for generation in self._waiting)

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        """A segment is stored: it may be written into the database when its turn comes."""
        for generation in self._waiting:
            if generation.segment == segment:
                generation.tables = tables

    def on_cut(self, epoch: int) -> None:
        """The database follows segments, not epochs."""

    def on_complete(self, epoch: int) -> None:
        """The database follows segments, not epochs."""

    def on_abort(self, epoch: int) -> None:
        """Segments stay in the chain, and reach the database all the same."""

    # ------------------------------------------------------------ in the background

    def next_work(self) -> Work | None:
        """A checkpoint that is wanted, or the next segment for the database."""
        if self._broken is not None:
            raise MainstayError(
                f"the local database cannot be written: {self._broken}. Is its disk full? "
                "RocksDB(directory=...) names another."
            ) from self._broken
        if self._to_store is not None:
            (base, checkpoint), self._to_store = self._to_store, None
            return self._storing(base, checkpoint)
        if self.is_busy:
            return None
        if self._wanted is not None:
            base, self._wanted = self._wanted, None
            return self._checkpointing(base)
        generation = self.next_generation()
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

    def next_generation(self) -> Generation | None:
        """The segment to be written into the database, if it is one's turn."""
        if self._waiting and self._waiting[0].tables is not None:
            return self._waiting[0]
        return None

    def absorb(self, generation: Generation) -> None:
        """Write a segment into the database. Runs in the background."""
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
        """All files of the database as it is. Runs in the background."""
        # What waits is not in it, and nothing is written meanwhile.
        generation = self._waiting[0].number - 1 if self._waiting else self._generation
        return Checkpoint(self._opened().checkpoint(), generation)

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
            tuple(StoredState.of(t.info, t.rows.number) for t in self.tables.values()),
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
        """Give up the database and its files."""
        for table in self.tables.values():
            table.database = None
            table.forget()
        if self._database is not None:
            self._database.close()

    # ------------------------------------------------------------ restore

    def restore(self, start: Restore) -> list[StateTable]:
        """Make the database hold what a chain says."""
        left = list(start.chain)
        if start.is_own and self._is_own(start.storage, left):
            self._open_stored(start.storage, left.pop(0))
        database = self._opened()
        for ref in left:
            if (
                self._is_checkpoint(ref)
                and not start.is_converted
                and self._copy(start.storage, ref)
            ):
                continue
            for rows in start.read(ref):
                if rows.name in self.tables:
                    write_rows(database, self.tables[rows.name], rows, self._generation)
        self._attach()
        return []

    def mark_all_changed(self) -> None:
        """A base stands for everything already: see ``base``."""

    def _is_own(self, storage: Storage, chain: Sequence[SegmentRef]) -> bool:
        """Whether a chain begins with a checkpoint of just these key-groups, the only one."""
        if (
            not chain
            or not self._is_checkpoint(chain[0])
            or any(map(self._is_checkpoint, chain[1:]))
        ):
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
        self._database = self.disk.open(self._name, files_of(storage, ref, descriptor))
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
        for chunk in scan_checkpoint(storage, ref, descriptor, self.disk):
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

    def _is_checkpoint(self, ref: SegmentRef) -> bool:
        return ref.format == self.disk.format
