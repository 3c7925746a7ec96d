"""Databases of the external backend in memory: no server, no threads, no time.

The simulation runs the backend over this. A server outlives workers, attempts and leaders, as a
real one does: it is known by its name to all who were told it. A transaction is done as a whole or
not at all; it may be refused, and its answer may get lost after it was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mainstay.errors import FencedError
from mainstay.state.backends.contract import KeyedBackend, Place
from mainstay.state.backends.external.backend import ExternalBackend, Remote
from mainstay.state.backends.external.descriptor import STORES
from mainstay.state.backends.external.protocols import PROTOCOLS
from mainstay.state.backends.external.store import (
    GROUP,
    Applied,
    StateChanges,
    StateColumns,
    StoreAwayError,
    Stored,
    TableSet,
    still_missing,
    tables_gone,
)
from mainstay.state.backends.external.votes import Part, Vote, VotingStore
from mainstay.state.keygroups import KeyGroupRange

Rows = dict[bytes, dict[bytes, bytes]]
"""Cells by ``k``, then by ``s``."""
Owner = tuple[str, str]


@dataclass(slots=True)
class MemoryServer:
    """What a database holds: rows, the ledger, and the attempt that it listens to."""

    tables: dict[TableSet, dict[str, Rows]] = field(default_factory=dict)
    ledger: dict[TableSet, list[Applied]] = field(default_factory=dict)
    admitted: dict[Owner, int] = field(default_factory=dict)
    prepared: dict[Vote, tuple[Sequence[Part], int]] = field(default_factory=dict)
    """Transactions in doubt, which outlive the worker that has begun them."""
    faults: int = 0
    random: Random = field(default_factory=Random)
    applied: list[tuple[TableSet, Applied]] = field(default_factory=list)
    """What was applied, in order, for tests to look at."""
    versions: dict[TableSet, Any] = field(default_factory=dict)
    """What ``memory_versions`` keeps."""

    def strikes(self) -> bool:
        if self.faults and self.random.random() < 0.1:
            self.faults -= 1
            return True
        return False


SERVERS: dict[str, MemoryServer] = {}


@dataclass(frozen=True, slots=True)
class MemoryStoreSettings:
    """The external backend with its database in memory. ``part_bytes`` is for the rows that each
    subtask of an operator caches, and for its changes. ``faults`` is how many calls fail."""

    name: str = "memory"
    part_bytes: int = 1 << 20
    faults: int = 0
    protocol: str = "logged"

    def open(self, place: Place) -> KeyedBackend:
        remote = Remote(
            self.store(self.server()), lambda: self.part_bytes, PROTOCOLS[self.protocol]
        )
        return ExternalBackend(place, remote)

    def store(self, server: MemoryServer) -> VotingStore:
        """A connection to a server that does what the protocol needs."""
        from mainstay.testing.memory_versions import VersionedMemoryStore
        from mainstay.testing.memory_votes import VotingMemoryStore

        is_versioned = self.protocol == "versioned"
        return (VersionedMemoryStore if is_versioned else VotingMemoryStore)(server, self.name)

    def server(self) -> MemoryServer:
        """The server of this name, which is made when it is asked for first."""
        if self.name not in SERVERS:
            self.fresh()
        return SERVERS[self.name]

    def fresh(self) -> MemoryServer:
        """A new server of this name, in the place of any other."""
        server = SERVERS[self.name] = MemoryServer(
            faults=self.faults, random=Random(f"server-{self.name}")
        )
        STORES[f"memory:{self.name}"] = lambda: self.store(server)
        return server


class MemoryStore:
    """A connection to a server."""

    def __init__(self, server: MemoryServer, name: str) -> None:
        self.server = server
        self.name = f"memory:{name}"

    def fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], *, is_known: bool
    ) -> None:
        self._answer()
        owner = (tables.lineage, tables.uid)
        if self.server.admitted.get(owner, 0) > attempt:
            raise self._fenced(tables, attempt)
        if is_known:
            self._check_there(tables)
        self.server.admitted[owner] = attempt
        found = self.server.tables.setdefault(tables, {})
        for state in states:
            found.setdefault(state.name, {})
        self._answer()

    def applied(self, tables: TableSet, groups: KeyGroupRange) -> list[Applied]:
        self._answer()
        rows = self.server.ledger.get(tables, [])
        return [row for row in rows if any(group in groups for group in row.groups)]

    def folded(self, tables: TableSet) -> int | None:
        return None

    def abandoned(self, tables: TableSet) -> Sequence[tuple[int, int]]:
        return ()

    def rows(self, tables: TableSet) -> int:
        states = self.server.tables.get(tables, {}).values()
        return sum(len(cells) for rows in states for cells in rows.values())

    def read(
        self, tables: TableSet, attempt: int, state: str, keys: Sequence[bytes]
    ) -> Mapping[bytes, list[tuple[bytes, bytes]]]:
        self._answer()
        self.check_fence(tables, attempt)
        self._check_there(tables)
        rows = self._rows(tables, state)
        return {k: sorted(rows[k].items()) for k in sorted(set(keys)) if k in rows}

    def read_entry(
        self, tables: TableSet, attempt: int, state: str, k: bytes, s: bytes
    ) -> bytes | None:
        self.check_fence(tables, attempt)
        return self._rows(tables, state).get(k, {}).get(s)

    def scan(
        self, tables: TableSet, state: str, groups: KeyGroupRange, up_to: int | None = None
    ) -> Iterator[Stored]:
        self._check_there(tables)
        rows = self._rows(tables, state)
        for k in sorted(k for k in rows if GROUP.unpack_from(k)[0] in groups):
            yield from ((k, s, cell) for s, cell in sorted(rows[k].items()))

    def apply(
        self,
        tables: TableSet,
        attempt: int,
        segment: Applied,
        changes: Sequence[StateChanges],
        forget_up_to: int,
    ) -> None:
        self._answer()
        self.check_fence(tables, attempt)
        ledger = self.server.ledger.setdefault(tables, [])
        covered = [row for row in ledger if row.segment == segment.segment]
        runs, missing = still_missing(changes, segment, covered)
        self._take_in(tables, segment, missing)
        self._note(tables, segment, runs)
        self._forget(tables, segment.groups, forget_up_to)
        self._answer()

    def _take_in(self, tables: TableSet, segment: Applied, changes: Sequence[StateChanges]) -> None:
        self._write(tables, changes)

    def _note(self, tables: TableSet, segment: Applied, runs: Iterable[KeyGroupRange]) -> None:
        for run in runs:
            row = Applied(segment.segment, segment.epoch, segment.number, run)
            self.server.ledger[tables].append(row)
            self.server.applied.append((tables, row))

    def _forget(self, tables: TableSet, groups: KeyGroupRange, up_to: int) -> None:
        self.server.ledger[tables] = [
            row
            for row in self.server.ledger[tables]
            if row.epoch > up_to or row.groups.first < groups.first or row.groups.last > groups.last
        ]

    def load(self, tables: TableSet, attempt: int, changes: Sequence[StateChanges]) -> None:
        self._answer()
        self.check_fence(tables, attempt)
        self._write(tables, changes)

    def sweep(self, tables: TableSet, attempt: int, keep: Iterable[str]) -> None:
        self.check_fence(tables, attempt)
        kept = set(keep)
        for each in list(self.server.tables):
            is_ours = (each.lineage, each.uid) == (tables.lineage, tables.uid)
            if is_ours and each.making not in kept:
                del self.server.tables[each]
                self.server.ledger.pop(each, None)

    def close(self) -> None:
        """A connection holds nothing."""

    # ------------------------------------------------------------ inside a transaction

    def check_fence(self, tables: TableSet, attempt: int) -> None:
        if self.server.admitted.get((tables.lineage, tables.uid), 0) != attempt:
            raise self._fenced(tables, attempt)

    def _check_there(self, tables: TableSet) -> None:
        if tables not in self.server.tables:
            raise tables_gone(tables, self.name)

    def _write(self, tables: TableSet, changes: Sequence[StateChanges]) -> None:
        for each in changes:
            rows = self._rows(tables, each.state)
            for k in each.cleared:
                rows.pop(k, None)
            for k, s in each.removed:
                cells = rows.get(k, {})
                cells.pop(s, None)
                if not cells:
                    rows.pop(k, None)
            for k, s, cell in each.put:
                rows.setdefault(k, {})[s] = cell

    def _rows(self, tables: TableSet, state: str) -> Rows:
        return self.server.tables.setdefault(tables, {}).setdefault(state, {})

    def _fenced(self, tables: TableSet, attempt: int) -> FencedError:
        admitted = self.server.admitted.get((tables.lineage, tables.uid))
        return FencedError(
            f"{self.name} listens to attempt {admitted} of the {tables}, and this is {attempt}."
        )

    def _answer(self) -> None:
        """Before a transaction it is refused here, after it its answer is lost."""
        if self.server.strikes():
            raise StoreAwayError(f"simulated: {self.name} does not answer")
