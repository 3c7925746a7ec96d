"""Sources and sinks as the runtime sees them: two small contracts for connectors.

A source is *replayable*: reading a split again from the same offset gives the same rows in the
same order. A sink is *two-phase*: what a writer prepares is a handle, the handle is part of the
snapshot, and it is committed once the snapshot is complete, possibly more than once.

Splits, offsets and the source's own notes are JSON values, because they are part of snapshots. An
offset may hold whatever a reader has to remember of its split.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.masking import shown_settings

Json = Any


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads from its beginning to its end.

    ``mark`` is for bounded sources: a short text that tells what the split holds. A later start of
    the job that plans the same id with another mark is refused, because what was read of the split
    is in the state and is not what it holds now.
    """

    id: str
    data: Json = None
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll gave: rows or None, where to go on after them, and whether that is the end.

    ``offset`` is any JSON value: a position, and what else the reader has to remember of its split.
    It is copied when it comes, so the reader may go on with its lists and dictionaries.

    ``ready_in_s`` says when there will be something to read again, for a reader that knows; one
    that does not is asked again at once after rows, and soon after none.
    """

    batch: pa.RecordBatch | None
    offset: Json
    finished: bool = False
    ready_in_s: float | None = None
    watermark_us: int | None = None
    """A promise of the reader, where it knows: no later row of the split is older than this, in
    microseconds since 1970. It counts where the job asks for watermarks."""
    goes_on: bool = False
    """Of one that is ``finished``: whether the split goes on after this end, which a bounded source
    has given it for this start. It is kept at its offset, and a later start opens it again."""
    is_idle: bool = False
    """Whether the reader knows that nothing comes for now: event time does not wait for the split
    until a poll says otherwise."""


class UnavailableError(ConnectionError):
    """What a source reads from, or a sink writes to, cannot be reached just now.

    Raised by a source (any ``ConnectionError`` or ``TimeoutError`` counts as this), it says that
    there is nothing wrong with the job: the split is opened again at its offset, for ever, and
    ``job.problems()`` tells. Every other exception of a source ends the attempt.
    """


UNAVAILABLE = (ConnectionError, TimeoutError)
"""All that counts as ``UnavailableError``. Libraries raise the two of Python's own themselves."""


class SplitReader(ABC):
    """Reads one split from an offset on."""

    skipped: int = 0
    """How many malformed records it has left out, where the user wants that."""
    waits_for: str | None = None
    """What keeps it from giving rows that it knows of, and what to do about it; None while nothing
    does. It is a problem of the job once it has lasted for ten seconds."""

    @abstractmethod
    def poll(self, max_rows: int) -> Polled:
        """The next rows, at most ``max_rows`` of them where they can be divided.

        Called again only after what it returned was taken.
        """

    def close(self) -> None:  # noqa: B027 - most readers hold nothing
        """Give back what the reader holds. Nothing but ``close`` is called after it."""


class Source(ABC):
    """A replayable source of rows of one schema."""

    schema: pa.Schema
    bounded: bool = True
    may_block: bool = False
    """Whether ``poll`` may wait for something: then it is called in the background."""
    poll_rows: int | None = None
    """How many rows a poll is asked for, for readers that give many more cheaply than few; None for
    as many as are processed next."""
    reads_at_once: int | None = None
    """How many splits a subtask reads at a time; None for all, as endless splits need."""
    replan_s: float | None = 1.0
    """How long after a plan an unbounded source is planned again; None where that is never."""
    malformed_column: str | None = None
    """The column of the schema that tells of records which could not be read, if there is one: a
    struct of position, error and raw, null for all others."""
    keeps_pickles: bool = False
    """Whether it unpickles what a snapshot holds of its splits."""
    atomic_splits: bool = False
    """Whether a split that was begun is read to its end before a snapshot is taken: for splits
    that would not give the same rows in the same order again."""
    tells_time: bool = False
    """Whether its readers alone say how far event time has come (``Polled.watermark_us``): the
    times of rows do not move it."""
    new_input: str = "a split with an id that was not planned before"
    """What a bounded source takes for new when a job that has finished is started again."""

    def __repr__(self) -> str:
        return shown_settings(self)

    @abstractmethod
    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        """The splits whose ids are not in ``seen``; others are passed over, but for their marks.

        Called by the coordinator, in the background. A bounded source is planned once each time
        the job is started, with all that earlier starts have planned in ``seen``; an unbounded one
        again and again (``replan_s``).
        """

    def forget(self, seen: frozenset[str]) -> Collection[str]:
        """Those ids of ``seen`` that ``plan`` will never give again, so that nobody keeps them.

        Called after every plan of an unbounded source, in the background too. An id that is
        planned again after it was forgotten is a new split, and is read again.
        """
        return ()

    @abstractmethod
    def read(self, split: Split, offset: Json | None) -> SplitReader:
        """A reader of the split, from its beginning where ``offset`` is None."""

    def on_complete(self, seen: frozenset[str], unfinished: Mapping[str, Json]) -> None:  # noqa: B027
        """An epoch is complete: what it has read to its end is never read again.

        ``seen`` are the ids that were planned by then, ``unfinished`` those not read to their end,
        with the offsets to go on from (None for the beginning). Called beside the coordinator's
        loop, again after a recovery, and not for every epoch. It is a courtesy to the outside:
        after an exception the job goes on, and the next epoch calls again.
        """


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Who is writing. ``lineage`` names the job's history; transactions carry it."""

    uid: str
    subtask: int
    attempt: int
    lineage: str


class SinkWriter(ABC):
    """Writes the rows of one subtask.

    ``write`` and ``prepare`` are called on the worker's loop, which stands still meanwhile: what
    takes more than a millisecond is *deferred*, by returning a function. The functions of a writer
    are called in the background, one at a time and in the order in which they were returned. An
    epoch waits for all that were returned before it. One that raises has the epochs that wait for
    it aborted and is called again, and must then do what is left to do; rows are not taken while
    too many wait. A ``MainstayError`` says that calling again is of no use: the attempt fails.
    """

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> Callable[[], object] | None:
        """Take rows, or defer some of the work.

        Nobody may see them before the handle they go into is committed.
        """

    @abstractmethod
    def prepare(self, epoch: int) -> bytes | Callable[[], bytes | None] | None:
        """Close what was written since the last call into a handle; None if it was nothing.

        Called between two batches, in the synchronous part of a snapshot. A function that is
        returned gives the handle, or None.
        """

    def close(self) -> None:  # noqa: B027 - most writers hold nothing
        """Give back what the writer holds. Nothing else is called after it.

        Called on the loop, perhaps while a deferred function still runs in the background.
        """


@dataclass(frozen=True, slots=True)
class SinkRecovery:
    """What a sink learns when an attempt begins: who it is, and what the restored epoch holds.

    ``handles`` are those whose commit was not confirmed then: they are committed, all others that
    an earlier attempt of this lineage left behind never will be.
    """

    uid: str
    lineage: str
    attempt: int
    handles: tuple[bytes, ...]


class Sink(ABC):
    """A two-phase sink. Where ``is_global`` is set its commit is one act for the whole job.

    A sink may have state of its own: an ``OperatorListState`` in the body of its class, of which
    each subtask has a handle under ``self``. ``open`` finds what was restored, and the writer may
    use it in ``write`` and ``prepare``; what is deferred may not.
    """

    is_global: bool = False
    keeps_pickles: bool = False
    """Whether it unpickles what a snapshot holds of its handles."""
    owned: str = ""
    """The place that belongs to one sink alone, such as a directory; empty where several may write
    to it."""

    def check_schema(self, schema: pa.Schema) -> None:  # noqa: B027 - most take any rows
        """Refuse, with a ``MainstayError``, rows that cannot be written. Called when the job is
        built."""

    def __repr__(self) -> str:
        return shown_settings(self)

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """A writer for one subtask of one attempt."""

    def commit(self, handles: Sequence[bytes]) -> None:
        """Make visible what the handles of one subtask stand for, in order.

        Called on the worker, in the background, and again after a failure or a recovery, with
        handles that may have been committed before: committing twice must do no more than
        committing once. An exception leaves the outcome open, and it is tried again until it
        works; a ``MainstayError`` says that it never will, as do errors of wrong code such as
        ``NameError`` and ``TypeError``, and the attempt fails. Calls to a
        target should have a timeout: nobody else can end one.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a commit(self, handles) method")

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        """For global sinks: make visible, in one act, what all subtasks prepared up to an epoch.

        Called where the coordinator runs, in the background, with the epochs in order and the
        handles in the order of their epochs and subtasks. A handle may come again, with the same
        epoch or a later one, after a failure, a recovery, or before its commit was confirmed: what
        was committed before must not be committed twice. Exceptions are as for ``commit``.
        """
        raise NotImplementedError(f"{type(self).__name__} needs commit_epoch(self, epoch, handles)")

    def recover(self, recovery: SinkRecovery) -> None:  # noqa: B027 - most leave nothing behind
        """Undo what earlier attempts began and no snapshot knows of.

        Called at the beginning of every attempt where the coordinator runs, in the background, and
        again until it works. For a global sink everything in ``recovery.handles`` is committed by
        then; for others the subtasks are about to. The workers of an older attempt may live on for
        a while: what they still write has to be refused or ignored by the target.
        """
