"""What the external backend needs of a database: a few fenced transactions, and reads in bulk.

``mainstay.connectors.postgres.states`` keeps state in PostgreSQL;
``mainstay.testing.memory_store`` keeps it in dictionaries, so that the simulation runs this
backend. All that may take long goes through here, and runs in the background wherever it can.

A row lies at ``k``, which is the key-group in two bytes, big endian, and the key (see
``cached.rows``), and at ``s``: nothing for a value, the map key for an entry of a map, and for a
part of a list the number of the segment that appended it, and a number within that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from mainstay.errors import MainstayError, RestoreError
from mainstay.state.keygroups import KeyGroupRange

GROUP = struct.Struct(">H")
PART = struct.Struct(">QI")

Stored: TypeAlias = "tuple[bytes, bytes, bytes]"
"""A row: ``k``, ``s`` and the cell of its value."""


Found = TypeVar("Found")
TRIES = 20
"""How often a database that does not answer is asked while the loop waits for it."""


class StoreAwayError(MainstayError):
    """The database cannot be reached, or did not answer: what was asked may have been done."""


@dataclass(frozen=True, slots=True)
class StateColumns:
    """A state as a database keeps it: a table of its own."""

    name: str
    kind: str
    key_type: str
    value_type: str
    map_key_type: str | None
    namespace_type: str | None = None


@dataclass(frozen=True, slots=True)
class TableSet:
    """Which tables: those of one operator of one job, and which making of them.

    ``lineage`` tells jobs apart. What is restored from elsewhere is loaded into tables that are
    made for it, so ``making`` is the attempt that made them; empty for those that began empty.
    """

    lineage: str
    uid: str
    making: str = ""

    def __str__(self) -> str:
        return f"state of operator {self.uid!r}"


@dataclass(frozen=True, slots=True)
class Applied:
    """A row of the ledger: the database has these key-groups of a segment.

    ``epoch`` is the first that the segment is part of, ``number`` its place in the chain.
    """

    segment: str
    epoch: int
    number: int
    groups: KeyGroupRange


@dataclass(frozen=True, slots=True)
class StateChanges:
    """What a segment does to the rows of one state, in this order."""

    state: str
    cleared: Sequence[bytes]
    """Keys, as ``k``, of which all rows go."""
    removed: Sequence[tuple[bytes, bytes]]
    put: Sequence[Stored]
    readable: pa.Table
    """The columns of the rows that are put, for people."""

    def within(self, groups: Iterable[int]) -> StateChanges:
        """The same for some key-groups alone."""
        kept = {GROUP.pack(group) for group in groups}
        mine = [row[0][:2] in kept for row in self.put]
        return StateChanges(
            self.state,
            [k for k in self.cleared if k[:2] in kept],
            [row for row in self.removed if row[0][:2] in kept],
            [row for row, is_mine in zip(self.put, mine, strict=True) if is_mine],
            self.readable.filter(pa.array(mine, pa.bool_())),
        )


def patiently(read: Callable[[], Found]) -> Found:
    """What the loop cannot go on without is asked for a few times. A database that is away holds
    its caller up a little."""
    for _ in range(TRIES - 1):
        try:
            return read()
        except StoreAwayError:
            continue
    return read()


def tables_gone(tables: TableSet, store: str) -> RestoreError:
    """What is asked for was dropped, by somebody or for the tables of a later epoch."""
    return RestoreError(
        f"the {tables} is not in {store}: its tables were dropped, the job has made them anew "
        "since an older epoch, or it is another database. Name the database that has them, start "
        "from the latest epoch, or start from a savepoint."
    )


def uncovered(groups: KeyGroupRange, covered: Iterable[Applied]) -> list[KeyGroupRange]:
    """The key-groups that no row of the ledger covers, in runs."""
    left = set(groups)
    for row in covered:
        left.difference_update(row.groups)
    runs: list[KeyGroupRange] = []
    for group in sorted(left):
        if runs and runs[-1].last == group - 1:
            runs[-1] = KeyGroupRange(runs[-1].first, group)
        else:
            runs.append(KeyGroupRange(group, group))
    return runs


def still_missing(
    changes: Sequence[StateChanges], segment: Applied, covered: Sequence[Applied]
) -> tuple[list[KeyGroupRange], Sequence[StateChanges]]:
    """What of a segment is to be applied beside what the ledger has of it."""
    runs = uncovered(segment.groups, covered)
    if runs == [segment.groups]:
        return runs, changes
    groups = [group for run in runs for group in run]
    return runs, [each.within(groups) for each in changes]


class Store(Protocol):
    """A database, as one subtask uses it. Any thread may call it."""

    @property
    def name(self) -> str:
        """What descriptors call this database; without a secret."""

    def fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], *, is_known: bool
    ) -> None:
        """Admit an attempt, refuse those before it from now on, and make tables that are missing.

        Raises ``FencedError`` where a later one was admitted, and ``RestoreError`` where tables
        that an epoch names are not there at all.
        """

    def check_fence(self, tables: TableSet, attempt: int) -> None:
        """Raise ``FencedError`` unless this attempt is the one that was admitted last."""

    def applied(self, tables: TableSet, groups: KeyGroupRange) -> list[Applied]:
        """The rows of the ledger that have some of these key-groups."""

    def folded(self, tables: TableSet) -> int | None:
        """The oldest epoch that can be read; None where there is one version, the newest."""

    def abandoned(self, tables: TableSet) -> Sequence[tuple[int, int]]:
        """The epochs, after one and up to another, that the job has left behind when it went back;
        nothing where no other than the latest can be gone back to."""

    def rows(self, tables: TableSet) -> int:
        """About how many rows there are."""

    def read(
        self, tables: TableSet, attempt: int, state: str, keys: Sequence[bytes]
    ) -> Mapping[bytes, list[tuple[bytes, bytes]]]:
        """The rows at each ``k``, by ``s``; keys without rows are left out.

        Raises ``FencedError`` where a later attempt is admitted: what that has written, beside
        what this one has in memory, is a state that never was.
        """

    def read_entry(
        self, tables: TableSet, attempt: int, state: str, k: bytes, s: bytes
    ) -> bytes | None:
        """The cell of one row; fenced as ``read`` is."""

    def scan(
        self, tables: TableSet, state: str, groups: KeyGroupRange, up_to: int | None = None
    ) -> Iterator[Stored]:
        """The rows of some key-groups in order, read some thousand at a time. Where there are
        versions, those up to a segment by its number."""

    def apply(
        self,
        tables: TableSet,
        attempt: int,
        segment: Applied,
        changes: Sequence[StateChanges],
        forget_up_to: int,
    ) -> None:
        """Apply what the ledger does not have of a segment, and note it there, in one transaction
        that only the admitted attempt can commit.

        Rows of the ledger up to an epoch, and within these key-groups, are dropped with it.
        """

    def load(self, tables: TableSet, attempt: int, changes: Sequence[StateChanges]) -> None:
        """Put rows into tables that no epoch names yet."""

    def sweep(self, tables: TableSet, attempt: int, keep: Iterable[str]) -> None:
        """Drop the tables of other makings, except some."""

    def close(self) -> None:
        """End what is under way."""
