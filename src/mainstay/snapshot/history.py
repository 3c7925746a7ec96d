"""What a job's commit log says: a pure value, folded from the records in the order of their slots.

It is as large after a year as after a minute: ``kept`` forgets epochs, attempts and savepoints
beyond a bound, and only their numbers stay used. Every slot carries the history before it, so the
newest slot says it all and older ones can be deleted.

Words: an *attempt* is one launch of the job's workers; its *begin* says from which epoch it was
restored. The epochs of a log form a tree, because an attempt may restore an older epoch than the
last. The *lineage* of an attempt is the path from the root of that tree to its newest epoch;
epochs beside that path stay in the log, and their numbers stay used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mainstay.errors import ProtocolError
from mainstay.snapshot.manifest import FileRef

FIRST_ATTEMPT = 1
FIRST_EPOCH = 1
KEPT_EPOCHS = 8
KEPT_ATTEMPTS = 20
KEPT_SAVEPOINTS = 50
_RECENT = 10


@dataclass(frozen=True, slots=True)
class Begin:
    """A leader started an attempt; every later slot up to the next begin belongs to it.

    ``origin`` is the savepoint, or the other job's directory, that it starts from: while there is
    no epoch yet, the next attempt must start from there again.
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
    begun_at: float | None = None


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


@dataclass(frozen=True, slots=True)
class Ended:
    """What a job has come to: ``how`` is finished, stopped, failed or cancelled.

    The end of a bounded job has a record of its own (``Finished``); this one is of the others.
    It holds for a process that stood by meanwhile. Whatever it says, the job can be started again.
    """

    how: str
    attempt: int
    at: float | None = None
    reason: str = ""


Record: TypeAlias = "Begin | EpochCommitted | SavepointTaken | Finished | Ended"


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt in the history: its begin, the slot of that, and how many epochs it completed."""

    begin: Begin
    slot: int
    epochs: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a history knows; what a slot carries of the history before it.

    ``epochs`` has the known epochs by number, ``parents`` the epoch that each builds on, None
    where that is unknown or there is none. ``head`` is where a restart goes on from.
    ``last_claim`` is the token of the newest slot. ``ended`` is what has become of the attempt
    that owns the log, None while it may be running, or if nobody has said.
    """

    next_slot: int = 0
    last_claim: str | None = None
    last_begin: Begin | None = None
    next_epoch: int = FIRST_EPOCH
    head: int | None = None
    epochs: dict[int, EpochCommitted] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    completed: int = 0
    attempts: tuple[PastAttempt, ...] = ()
    savepoints: tuple[SavepointTaken, ...] = ()
    ended: Ended | None = None


class History:
    """The facts of a log, and what follows from them. Never changes once it is made."""

    __slots__ = ("_recent", "facts")

    def __init__(self, records: Iterable[Record] = (), facts: Facts | None = None) -> None:
        self.facts = facts or Facts()
        self._recent: tuple[Record, ...] = ()
        for record in records:
            self._append(record, None)

    def with_record(self, record: Record, claim: str | None = None) -> History:
        """This history and one more slot, with the token that it was claimed by."""
        epochs, parents = dict(self.facts.epochs), dict(self.facts.parents)
        longer = History(facts=replace(self.facts, epochs=epochs, parents=parents))
        longer._recent = self._recent
        longer._append(record, claim)
        return longer

    def kept(self, epochs: int = 0) -> History:
        """This history with fewer epochs: the newest of its lineage, and of those beside it.

        ``epochs`` is how many stay of either at least.
        """
        facts, most = self.facts, max(epochs, KEPT_EPOCHS)
        lineage = [record.epoch for record in self.lineage_epochs()]
        beside = sorted(facts.epochs.keys() - set(lineage))
        stay = {*lineage[-most:], *beside[-most:]}
        if len(stay) == len(facts.epochs):
            return self
        parents = {number: facts.parents[number] for number in stay}
        shorter = replace(
            facts,
            epochs={number: facts.epochs[number] for number in sorted(stay)},
            parents={number: p if p in stay else None for number, p in parents.items()},
            finished=facts.finished & stay,
        )
        found = History(facts=shorter)
        found._recent = self._recent
        return found

    @property
    def recent(self) -> tuple[Record, ...]:
        """The newest records that were read or added one by one, at most ten."""
        return self._recent

    @property
    def next_slot(self) -> int:
        """The index of the first free slot."""
        return self.facts.next_slot

    @property
    def last_begin(self) -> Begin | None:
        """The begin of the attempt that owns the log, or None when there was never one."""
        return self.facts.last_begin

    @property
    def next_attempt(self) -> int:
        """A number that no attempt has had."""
        begin = self.facts.last_begin
        return begin.attempt + 1 if begin else FIRST_ATTEMPT

    @property
    def next_epoch(self) -> int:
        """A number above that of every epoch in the log, on whatever lineage."""
        return self.facts.next_epoch

    @property
    def latest_epoch(self) -> EpochCommitted | None:
        """The last epoch on the lineage of the last begin: where a restart goes on from."""
        head = self.facts.head
        return None if head is None else self.facts.epochs[head]

    @property
    def origin(self) -> str | None:
        """What the next attempt must start from because there is no epoch that holds it yet."""
        begin = self.facts.last_begin
        return begin.origin if begin is not None and self.facts.head is None else None

    @property
    def finished(self) -> bool:
        """Whether the latest epoch is the end of the job; restoring it only repeats commits."""
        return self.facts.head in self.facts.finished

    @property
    def ended(self) -> Ended | None:
        """What the job has come to, if its last leader has said so."""
        return self.facts.ended

    @property
    def completed(self) -> int:
        """How many epochs were ever completed."""
        return self.facts.completed

    @property
    def attempts(self) -> tuple[PastAttempt, ...]:
        """The newest attempts, oldest first."""
        return self.facts.attempts

    @property
    def savepoints(self) -> tuple[SavepointTaken, ...]:
        """The newest savepoints, oldest first."""
        return self.facts.savepoints

    @property
    def epochs(self) -> tuple[EpochCommitted, ...]:
        """The newest epochs, on whatever lineage, oldest first."""
        return tuple(self.facts.epochs.values())

    def epoch(self, number: int) -> EpochCommitted | None:
        """A committed epoch by its number, on whatever lineage."""
        return self.facts.epochs.get(number)

    def lineage_epochs(self, of: int | None = None) -> tuple[EpochCommitted, ...]:
        """The epochs that one builds on, and itself, oldest first; of the latest by default."""
        lineage = []
        number = self.facts.head if of is None else of
        while number is not None:
            lineage.append(self.facts.epochs[number])
            number = self.facts.parents[number]
        return tuple(reversed(lineage))

    # ------------------------------------------------------------ what a record changes

    def _append(self, record: Record, claim: str | None) -> None:
        if isinstance(record, Begin):
            facts = self._begun(record)
        elif isinstance(record, EpochCommitted):
            facts = self._committed(record)
        elif isinstance(record, Finished):
            facts = self._finished(record)
        elif isinstance(record, Ended):
            facts = self._ended(record)
        else:
            facts = self._saved(record)
        self.facts = replace(facts, next_slot=facts.next_slot + 1, last_claim=claim)
        self._recent = (*self._recent, record)[-_RECENT:]

    def _begun(self, record: Begin) -> Facts:
        facts, origin = self.facts, record.restored_from
        self._require(record.attempt >= self.next_attempt, record, "its attempt is used already")
        self._require(
            origin is None or origin in facts.epochs, record, "it restores no committed epoch"
        )
        return replace(
            facts,
            last_begin=record,
            ended=None,
            head=origin,
            next_epoch=max(facts.next_epoch, record.next_epoch),
            attempts=(*facts.attempts, PastAttempt(record, facts.next_slot))[-KEPT_ATTEMPTS:],
        )

    def _committed(self, record: EpochCommitted) -> Facts:
        facts = self.facts
        self._require_current(record.attempt, record)
        self._require(record.epoch >= facts.next_epoch, record, "its number is used already")
        # The two dictionaries are this history's own.
        facts.epochs[record.epoch] = record
        facts.parents[record.epoch] = facts.head
        *older, current = facts.attempts
        return replace(
            facts,
            head=record.epoch,
            next_epoch=record.epoch + 1,
            completed=facts.completed + 1,
            attempts=(*older, replace(current, epochs=current.epochs + 1)),
        )

    def _finished(self, record: Finished) -> Facts:
        self._require_current(record.attempt, record)
        is_head = record.epoch == self.facts.head
        self._require(is_head, record, "it names another than the latest epoch")
        finished = self.facts.finished | {record.epoch}
        return replace(self.facts, finished=finished, ended=Ended("finished", record.attempt))

    def _ended(self, record: Ended) -> Facts:
        self._require_current(record.attempt, record)
        return replace(self.facts, ended=record)

    def _saved(self, record: SavepointTaken) -> Facts:
        is_past = self.last_begin is not None and record.epoch < self.next_epoch
        self._require(is_past, record, "it names no committed epoch")
        return replace(self.facts, savepoints=(*self.facts.savepoints, record)[-KEPT_SAVEPOINTS:])

    def _require_current(self, attempt: int, record: Record) -> None:
        begin = self.facts.last_begin
        current = begin.attempt if begin else None
        self._require(attempt == current, record, f"the attempt that owns the log is {current}")

    def _require(self, holds: bool, record: Record, why: str) -> None:
        if not holds:
            before = "".join(f"\n  {known}" for known in self._recent)
            raise ProtocolError(
                f"slot {self.next_slot} of the commit log cannot be {record}: {why}. "
                f"The slots before it:{before or ' none'}"
            )
