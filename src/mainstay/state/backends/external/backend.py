"""The external backend: keyed state in a database that outlives workers and attempts.

The changes of a subtask are segments, as in every backend, and a snapshot is durable when its
segments are. How and when they come into the database is the protocol's affair (``logged``,
``prepared``); until they are there, reads find them in memory, where they cannot be evicted. A
restore fences older attempts, asks the ledger which segments of the chain the database has, and
keeps the others as segments that are still to be applied. It reads no table.

What may take long runs in the background; applying is one thing at a time, reading goes on beside
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.appending import put_whole
from mainstay.state.backends.cached.dropping import pairs_among, with_deletions
from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.contract import (
    Base,
    Doubts,
    Frozen,
    Looks,
    PathOf,
    Place,
    Restore,
    Work,
)
from mainstay.state.backends.external.adoption import go_on, load
from mainstay.state.backends.external.changes import changes_in, noted, row_key_of
from mainstay.state.backends.external.descriptor import state_columns
from mainstay.state.backends.external.ledger import Pending, Position
from mainstay.state.backends.external.logged import Logged
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.reading import RemoteTable
from mainstay.state.backends.external.reads import Reads
from mainstay.state.backends.external.votes import VotingStore
from mainstay.state.backends.over_tables import BackendOverTables
from mainstay.state.backends.tables import Tables
from mainstay.state.dropping import dropped_pairs
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import stored_info

_ACTIVE = 0.15
_WAITING = 0.35
"""Shares of the backend's memory: for the active segment, and for all changes it still holds."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A database, and what one backend may keep of its rows in memory."""

    store: VotingStore
    part_bytes: Callable[[], int]
    protocol: type[Logged] = Logged
    on_close: Callable[[Any], None] = lambda _: None
    """Hears of a backend that is closed: others may have its part."""


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
        self.place, self._remote = place, remote
        states = [state_columns(info, place.key) for info in infos]
        self.own = OwnTables(remote.store, place, self.tables, states)
        self.commits = remote.protocol(self.own, self._applied)
        self.reads = Reads(self.tables, self._drop)
        self._is_attached = False
        self._frozen_bytes = 0

    def _attach(self) -> None:
        """Have rows read from the database. Before, there are none of this subtask in it."""
        self._is_attached = True
        for table in self.tables.values():
            table.database = RemoteTable(self.own.store, self.own.set, table, self.place)

    # ------------------------------------------------------------ on the loop

    def prefetch(self, keys: Sequence[Any]) -> None:
        """What is not there by now is read key by key, if it is asked for at all."""

    def read_ahead(self, keys: Sequence[Any]) -> Work | None:
        work = self.reads.ahead(keys) if self._is_attached else None
        if work is None:
            return None

        def done(found: Any) -> None:
            self.commits.trouble = None
            work.done(found)

        def failed(error: Exception) -> None:
            self.commits.failed(error)
            work.failed(error)

        return Work(work.run, done, failed)

    def relieve(self) -> None:
        part_bytes = self._remote.part_bytes() // max(1, len(self.tables))
        for table in self.tables.values():
            table.keep(part_bytes)

    def freeze(self) -> Frozen:
        """Take the active segment away; ``frozen_as`` says which segment of the chain it is."""
        self._frozen_bytes = self._active_bytes()
        number = self.commits.unapplied.next_number
        frozen = {name: table.freeze_as(number) for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def frozen_as(self, segment: str) -> None:
        self.commits.unapplied.add(segment, self._frozen_bytes, self.place.groups)

    def on_cut(self, epoch: int) -> None:
        self.commits.on_cut(epoch)

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        for tables in self.tables.encode(frozen):
            for rows in tables:
                self.tables[rows.name].learn(rows.table.nbytes, rows.table.num_rows)
            yield tables

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        self.commits.unapplied.durable(segment, tables)

    def has_voted(self, epoch: int) -> bool:
        return self.commits.has_voted(epoch)

    def on_held(self, epoch: int) -> None:
        self.commits.on_held(epoch)

    def on_complete(self, epoch: int) -> None:
        self.commits.on_complete(epoch)

    def on_abort(self, epoch: int) -> None:
        self.commits.on_abort(epoch)

    @property
    def holds_epochs(self) -> bool:  # type: ignore[override]
        return self.commits.holds_epochs

    @property
    def trouble(self) -> Exception | None:  # type: ignore[override]
        return self.commits.trouble

    def in_doubt(self, now: float) -> Doubts | None:
        return self.commits.in_doubt(now)

    @property
    def looks(self) -> Looks | None:  # type: ignore[override]
        return self.reads.looks if self._is_attached else Looks(0, 0, 0)

    # ------------------------------------------------------------ memory

    def _active_bytes(self) -> int:
        return sum(table.weight * table.row_bytes for table in self.tables.values())

    @property
    def is_large(self) -> bool:
        return self._active_bytes() > self._remote.part_bytes() * _ACTIVE

    @property
    def is_full(self) -> bool:
        """Whether changes wait for the database, and not for their epoch, beyond what they may.

        Those that wait for an epoch must not hold its marker back.
        """
        waiting = self.commits.unapplied.size_bytes + self._active_bytes()
        return self.is_busy and waiting > self._remote.part_bytes() * _WAITING

    @property
    def is_busy(self) -> bool:
        return self.commits.is_busy

    @property
    def not_absorbed(self) -> frozenset[str]:
        return self.commits.unapplied.segments

    # ------------------------------------------------------------ in the background

    def next_work(self) -> Work | None:
        return self.commits.next_work()

    def begin_base(self, base: Base) -> bool:
        self.commits.begin_base(base)
        return True

    def _applied(self, number: int) -> None:
        """The database has a segment."""
        if not self._is_attached:
            self._attach()
        self.reads.applied(number)

    def _drop(self, number: int) -> None:
        """The database has a segment, and nobody reads what was there before."""
        for table in self.tables.values():
            table.absorbed(number)

    def is_settled(self, epoch: int) -> bool:
        return self.commits.is_settled(epoch)

    def end(self) -> None:
        self.commits.end()

    def close(self) -> None:
        for table in self.tables.values():
            table.database = None
            table.forget()
        self.own.store.close()
        self._remote.on_close(self)

    # ------------------------------------------------------------ restore

    def restore(self, start: Restore) -> list[StateTable]:
        if start.is_own:
            go_on(self.commits, start, self._undropped, self._take_over)
        else:
            load(self.own, start, self._undropped, self._load)
        self._attach()
        return []

    def _undropped(self, rows: StateTable) -> StateTable | None:
        table = self.tables.get(rows.name)
        if table is None:
            return None
        rows = self._with_deletions(table, rows)
        # Another backend has written what is appended.
        database = RemoteTable(self.own.store, self.own.set, table, self.place)
        return put_whole(table, rows, database, [part for _, part in table.frozen])

    def _with_deletions(self, table: Any, rows: StateTable) -> StateTable:
        if not rows.drops:
            return rows
        first = min(drop.first_group for drop in rows.drops)
        last = max(drop.last_group for drop in rows.drops)
        found = self.own.store.scan(self.own.set, rows.name, KeyGroupRange(first, last))
        places = dict.fromkeys(row_key_of(k) for k, _, _ in found)
        pairs = dict.fromkeys(pairs_among(table, places, rows.drops))
        noted_pairs = [pair for _, part in table.frozen for pair in part]
        drops = (rows.drops, table.max_parallelism)
        pairs |= dict.fromkeys(dropped_pairs(noted_pairs, table.stored_key, *drops))
        return with_deletions(table, rows, list(pairs))

    def _take_over(self, pending: Pending) -> None:
        """Keep the changes of a restored segment, to be applied with the next epoch."""
        for rows in pending.tables or ():
            table = self.tables[rows.name]
            table.frozen.append((pending.number, noted(table, rows)))

    def _load(self, rows: StateTable) -> None:
        """Put rows into the tables, without a word in the ledger."""
        number = self.commits.unapplied.take_number()
        changes = changes_in(self.tables, [rows], number)
        self.own.store.load(self.own.set, self.place.attempt, changes)
        self.commits.unapplied.position = Position(0, number)

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef | None:
        return self.own.save(self.commits.described(), storage, path_of, id)

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, without making them changes again."""
        self.commits.admit()
        self._attach()
        whole = self._undropped(rows)
        assert whole is not None
        self._load(whole)
        self.tables[rows.name].forget()
        yield

    def mark_all_changed(self, applied: Sequence[StateTable] = ()) -> None:
        """A base stands for everything already: see ``base``."""
