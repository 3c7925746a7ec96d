"""What a job's commit log says: a pure value, folded from the records in the order of their slots.

Words: an *attempt* is one launch of the job's workers; its *begin* says from which epoch it was
restored. The epochs of a log form a tree, because an attempt may restore an older epoch than the
last. The *lineage* of an attempt is the path from the root of that tree to its newest epoch;
epochs beside that path stay in the log, and their numbers stay used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from mainstay.errors import ProtocolError
from mainstay.snapshot.manifest import FileRef

FIRST_ATTEMPT = 1
FIRST_EPOCH = 1


@dataclass(frozen=True, slots=True)
class Begin:
    """A leader started an attempt; every later slot up to the next begin belongs to it.

    ``origin`` is the savepoint, or the other job's directory, that it starts from: while there is
    no epoch yet, whoever goes on with the job must start from there again.
    """

    attempt: int
    leader: str
    restored_from: int | None
    lineage: str
    job: str
    max_parallelism: int
    hash_id: str
    next_epoch: int
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """An epoch is complete: its manifest, and all that it names, is durable."""

    epoch: int
    attempt: int
    manifest: FileRef


@dataclass(frozen=True, slots=True)
class SavepointTaken:
    """A complete epoch was also made into a savepoint; ``manifest`` is its ``savepoint.json``."""

    name: str
    epoch: int
    manifest: FileRef


@dataclass(frozen=True, slots=True)
class Finished:
    """The bounded job ended with this epoch and every sink has committed it."""

    epoch: int
    attempt: int


Record: TypeAlias = "Begin | EpochCommitted | SavepointTaken | Finished"


class History:
    """The records of a log and what follows from them. Never changes once it is made."""

    __slots__ = (
        "_epochs",
        "_finished_epochs",
        "_head",
        "_last_begin",
        "_next_epoch",
        "_parents",
        "_records",
    )

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records: list[Record] = []
        self._epochs: dict[int, EpochCommitted] = {}
        self._parents: dict[int, int | None] = {}
        self._finished_epochs: frozenset[int] = frozenset()
        self._head: int | None = None
        self._last_begin: Begin | None = None
        self._next_epoch = FIRST_EPOCH
        for record in records:
            self._append(record)

    def with_record(self, record: Record) -> History:
        """This history and one more slot."""
        longer = History()
        longer._records = self._records.copy()
        longer._epochs = self._epochs.copy()
        longer._parents = self._parents.copy()
        longer._finished_epochs = self._finished_epochs
        longer._head = self._head
        longer._last_begin = self._last_begin
        longer._next_epoch = self._next_epoch
        longer._append(record)
        return longer

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record, in the order of the slots."""
        return tuple(self._records)

    @property
    def next_slot(self) -> int:
        """The index of the first free slot."""
        return len(self._records)

    @property
    def last_begin(self) -> Begin | None:
        """The begin of the attempt that owns the log, or None when there was never one."""
        return self._last_begin

    @property
    def next_attempt(self) -> int:
        """A number that no attempt has had."""
        return self._last_begin.attempt + 1 if self._last_begin else FIRST_ATTEMPT

    @property
    def next_epoch(self) -> int:
        """A number above that of every epoch in the log, on whatever lineage."""
        return self._next_epoch

    @property
    def latest_epoch(self) -> EpochCommitted | None:
        """The last epoch on the lineage of the last begin: where a restart goes on from."""
        return None if self._head is None else self._epochs[self._head]

    @property
    def origin(self) -> str | None:
        """What the next attempt must start from because there is no epoch that holds it yet."""
        begin = self._last_begin
        return begin.origin if begin is not None and self._head is None else None

    @property
    def finished(self) -> bool:
        """Whether the latest epoch is the end of the job; restoring it only repeats commits."""
        return self._head in self._finished_epochs

    def epoch(self, number: int) -> EpochCommitted | None:
        """A committed epoch by its number, on whatever lineage."""
        return self._epochs.get(number)

    def lineage_epochs(self, of: int | None = None) -> tuple[EpochCommitted, ...]:
        """The epochs that one builds on, and itself, oldest first; of the latest by default."""
        lineage = []
        number = self._head if of is None else of
        while number is not None:
            lineage.append(self._epochs[number])
            number = self._parents[number]
        return tuple(reversed(lineage))

    def _append(self, record: Record) -> None:
        if isinstance(record, Begin):
            self._begin(record)
        elif isinstance(record, EpochCommitted):
            self._commit(record)
        elif isinstance(record, Finished):
            self._finish(record)
        else:
            self._require(record.epoch in self._epochs, record, "it names no committed epoch")
        self._records.append(record)

    def _begin(self, record: Begin) -> None:
        origin = record.restored_from
        self._require(record.attempt >= self.next_attempt, record, "its attempt is used already")
        self._require(
            origin is None or origin in self._epochs, record, "it restores no committed epoch"
        )
        self._last_begin = record
        self._head = origin
        self._next_epoch = max(self._next_epoch, record.next_epoch)

    def _commit(self, record: EpochCommitted) -> None:
        self._require_current(record.attempt, record)
        self._require(record.epoch >= self._next_epoch, record, "its number is used already")
        self._epochs[record.epoch] = record
        self._parents[record.epoch] = self._head
        self._head = record.epoch
        self._next_epoch = record.epoch + 1

    def _finish(self, record: Finished) -> None:
        self._require_current(record.attempt, record)
        self._require(record.epoch == self._head, record, "it names another than the latest epoch")
        self._finished_epochs |= {record.epoch}

    def _require_current(self, attempt: int, record: Record) -> None:
        current = self._last_begin.attempt if self._last_begin else None
        self._require(attempt == current, record, f"the attempt that owns the log is {current}")

    def _require(self, holds: bool, record: Record, why: str) -> None:
        if not holds:
            before = "".join(f"\n  {known}" for known in self._records[-10:])
            raise ProtocolError(
                f"slot {self.next_slot} of the commit log cannot be {record}: {why}. "
                f"The slots before it:{before or ' none'}"
            )
