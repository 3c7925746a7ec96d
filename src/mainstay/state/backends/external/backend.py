"""The external backend: keyed state in a database that outlives workers and attempts.

The changes of a subtask are segments, as in every backend, and a snapshot is durable when its
segments are: they are the write-ahead log of the database. A segment of a *committed* epoch is
applied in the background, in the order of the chain, in one transaction with its row of the
ledger; until then reads find its changes in memory, where they cannot be evicted. A restore
fences older attempts, asks the ledger which segments of the chain the database has, and keeps the
others as segments that are still to be applied. It reads no table.

What may take long runs in the background; applying is one thing at a time, reading goes on beside
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mainstay.errors import FencedError, MainstayError
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.contract import Base, Frozen, Looks, PathOf, Place, Restore, Work
from mainstay.state.backends.external.adoption import go_on, load
from mainstay.state.backends.external.changes import changes_in, noted
from mainstay.state.backends.external.descriptor import (
    Descriptor,
    check_not_ahead,
    descriptor_of,
    state_columns,
)
from mainstay.state.backends.external.ledger import NOTHING, Pending, Position, Unapplied
from mainstay.state.backends.external.reading import RemoteTable
from mainstay.state.backends.external.reads import Reads
from mainstay.state.backends.external.store import (
    Applied,
    Store,
    StoreAwayError,
    TableSet,
    patiently,
)
from mainstay.state.backends.over_tables import BackendOverTables
from mainstay.state.backends.tables import Tables
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import stored_info

_ACTIVE = 0.15
_WAITING = 0.35
"""Shares of the backend's memory: for the active segment, and for all changes it still holds."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A database, and what one backend may keep of its rows in memory."""

    store: Store
    part_bytes: Callable[[], int]


class ExternalBackend(BackendOverTables):
    """The keyed state of one subtask of one operator, in tables of an external database."""

    is_remote = has_own_bases = True

    def __init__(self, place: Place, remote: Remote) -> None:
        infos = [stored_info(info) for info in place.states]
        tables = {
            info.name: TABLES[info.kind.shape](
                info, StoredKey.of(place.key, info.namespace), 0, place.max_parallelism
            )
            for info in infos
        }
        super().__init__(
            Tables(place.states, place.key, place.max_parallelism, place.context, tables)
        )
        self.place, self.store, self._remote = place, remote.store, remote
        self.states = [state_columns(info, place.key) for info in infos]
        self.set = TableSet(place.lineage, place.uid)
        self.unapplied = Unapplied()
        self.reads = Reads(self.tables, self._drop)
        self.trouble: Exception | None = None
        self._is_attached = self._is_ended = False
        self._broken: Exception | None = None
        self._is_admitted = False
        self._is_applying = False
        self._frozen_bytes = 0
        self._wanted: deque[tuple[Base, Descriptor]] = deque()

    def _attach(self) -> None:
        """Have rows read from the database. Before, there are none of this subtask in it."""
        self._is_attached = True
        for table in self.tables.values():
            table.database = RemoteTable(self.store, self.set, table, self.place)

    # ------------------------------------------------------------ on the loop

    def prefetch(self, keys: Sequence[Any]) -> None:
        """What is not there by now is read key by key, if it is asked for at all."""

    def read_ahead(self, keys: Sequence[Any]) -> Work | None:
        work = self.reads.ahead(keys) if self._is_attached else None
        if work is None:
            return None

        def done(found: Any) -> None:
            self.trouble = None
            work.done(found)

        def failed(error: Exception) -> None:
            self._failed(error)
            work.failed(error)

        return Work(work.run, done, failed)

    def relieve(self) -> None:
        part_bytes = self._part_bytes // max(1, len(self.tables))
        for table in self.tables.values():
            table.keep(part_bytes)

    def freeze(self) -> Frozen:
        """Take the active segment away; ``frozen_as`` says which segment of the chain it is."""
        self._frozen_bytes = self._active_bytes()
        number = self.unapplied.next_number
        frozen = {name: table.freeze_as(number) for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def frozen_as(self, segment: str) -> None:
        self.unapplied.add(segment, self._frozen_bytes, self.place.groups)

    def on_cut(self, epoch: int) -> None:
        self.unapplied.cut(epoch)

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        for tables in self.tables.encode(frozen):
            for rows in tables:
                self.tables[rows.name].learn(rows.table.nbytes, rows.table.num_rows)
            yield tables

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        self.unapplied.durable(segment, tables)

    def on_complete(self, epoch: int) -> None:
        self.unapplied.committed(epoch)

    @property
    def looks(self) -> Looks | None:  # type: ignore[override]
        return self.reads.looks if self._is_attached else Looks(0, 0, 0)

    # ------------------------------------------------------------ memory

    @property
    def _part_bytes(self) -> int:
        return self._remote.part_bytes()

    def _active_bytes(self) -> int:
        return sum(table.weight * table.row_bytes for table in self.tables.values())

    @property
    def is_large(self) -> bool:
        return self._active_bytes() > self._part_bytes * _ACTIVE

    @property
    def is_full(self) -> bool:
        """Whether changes wait for the database, and not for their epoch, beyond what they may.

        Those that wait for an epoch must not hold its marker back.
        """
        waiting = self.unapplied.size_bytes + self._active_bytes()
        return self.is_busy and waiting > self._part_bytes * _WAITING

    @property
    def is_busy(self) -> bool:
        return self._is_applying or self.unapplied.next() is not None

    @property
    def not_absorbed(self) -> frozenset[str]:
        return self.unapplied.segments

    # ------------------------------------------------------------ in the background

    def next_work(self) -> Work | None:
        """A base that is wanted, or the next segment for the database."""
        if self._broken is not None:
            raise MainstayError(f"{self.store.name}: {self._broken}") from self._broken
        if self._wanted:
            return self._describing(*self._wanted.popleft())
        pending = None if self._is_applying else self.unapplied.next()
        return None if pending is None else self._applying(pending)

    def begin_base(self, base: Base) -> bool:
        """What a run of applied segments comes to is in the database."""
        self._wanted.append((base, self._descriptor(self.unapplied.position)))
        return True

    def _describing(self, base: Base, described: Descriptor) -> Work:
        def done(ref: SegmentRef) -> None:
            base.stored(ref)
            self.unapplied.base_stored(described.epoch)

        return Work(
            lambda: self._save(described, base.storage, base.path_of, base.id), done, base.failed
        )

    def _save(
        self, described: Descriptor, storage: Storage, path_of: PathOf, id: str
    ) -> SegmentRef:
        """Store a descriptor. Runs in the background."""
        groups, most = self.place.groups, self.place.max_parallelism
        rows = self.store.rows(self.set) * len(groups) // most
        return described.save(storage, path_of, id, groups, rows)

    def _descriptor(self, at: Position) -> Descriptor:
        runs = self.unapplied.reached.runs(self.place.groups)
        return descriptor_of(self.store, self.set, self.states, at.epoch, at.number, runs)

    def _applying(self, pending: Pending) -> Work:
        forget_up_to = self.unapplied.forgettable(pending)

        def done(_: Any) -> None:
            if self._is_ended:
                return
            self._is_applying = False
            self.trouble = None
            if not self._is_attached:
                self._attach()
            self.unapplied.applied(pending)
            self.reads.applied(pending.number)

        def failed(error: Exception) -> None:
            self._is_applying = False
            self._failed(error)

        self._is_applying = True
        return Work(lambda: self.apply_pending(pending, forget_up_to), done, failed)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, StoreAwayError):
            # Nobody tells when it is back: what was asked is asked again.
            self.trouble = error
        else:
            self._broken = error

    def apply_pending(self, pending: Pending, forget_up_to: int) -> None:
        """Apply a segment. Runs in the background; again, where its outcome is not known."""
        assert pending.tables is not None
        assert pending.epoch is not None
        self._admit()
        changes = changes_in(self.tables, pending.tables, pending.number)
        segment = Applied(pending.segment, pending.epoch, pending.number, pending.groups)
        self.store.apply(self.set, self.place.attempt, segment, changes, forget_up_to)

    def _admit(self) -> None:
        """Begin with tables that are empty, before the first write into them."""
        if not self._is_admitted:
            self._fence()
            applied = self.store.applied(self.set, self.place.groups)
            check_not_ahead(self.set, self.place.groups, (), {}, applied)

    def _fence(self, *, is_known: bool = False) -> None:
        self.store.fence(self.set, self.place.attempt, self.states, is_known=is_known)
        self._is_admitted = True

    def _drop(self, number: int) -> None:
        """The database has a segment, and nobody reads what was there before."""
        for table in self.tables.values():
            table.absorbed(number)

    def end(self) -> None:
        """Apply what is committed, so that others find it. Where the database is away, or listens
        to somebody else by now, the next attempt does."""
        self._is_ended = True
        try:
            # What is under way is done again, and finds itself done.
            while (pending := self.unapplied.next()) is not None:
                patiently(partial(self.apply_pending, pending, NOTHING))
                self.unapplied.applied(pending)
        except (StoreAwayError, FencedError) as error:
            self.trouble = error

    def close(self) -> None:
        for table in self.tables.values():
            table.database = None
            table.forget()
        self.store.close()

    # ------------------------------------------------------------ restore

    def restore(self, start: Restore) -> list[StateTable]:
        if start.is_own:
            go_on(self, start)
        else:
            load(self, start)
        return []

    def use(self, tables: TableSet, *, is_known: bool) -> None:
        """Go on with tables, which older attempts are kept from."""
        self.set = tables
        self._attach()
        self._fence(is_known=is_known)

    def take_over(self, pending: Pending) -> None:
        """Keep the changes of a restored segment, to be applied with the next epoch."""
        for rows in pending.tables or ():
            table = self.tables[rows.name]
            table.frozen.append((pending.number, noted(table, rows)))

    def apply_at_once(self, pending: Pending) -> None:
        """Apply a restored segment. Runs in the background, before anything else."""
        self.unapplied.cut(0)
        self.apply_pending(pending, NOTHING)
        self.unapplied.applied(pending)

    def load_rows(self, rows: StateTable) -> None:
        """Put rows into the tables, without a word in the ledger."""
        number = self.unapplied.take_number()
        changes = changes_in(self.tables, [rows], number)
        self.store.load(self.set, self.place.attempt, changes)
        self.unapplied.position = Position(0, number)

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef | None:
        return self._save(self._descriptor(self.unapplied.position), storage, path_of, id)

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, without making them changes again."""
        self._admit()
        self._attach()
        self.load_rows(rows)
        self.tables[rows.name].forget()
        yield

    def mark_all_changed(self) -> None:
        """A base stands for everything already: see ``base``."""
