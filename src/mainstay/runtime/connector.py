"""Sources and sinks as the runtime sees them: two small contracts for connectors.

A source is *replayable*: reading a split again from the same offset gives the same rows in the
same order. A sink is *two-phase*: what a writer prepares is a handle, the handle is part of the
snapshot, and it is committed once the snapshot is complete, possibly more than once.

Splits, offsets and the source's own notes are JSON values, because they are part of snapshots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Json = Any


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads from its beginning to its end."""

    id: str
    data: Json = None


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll gave: rows or None, where to go on after them, and whether that is the end."""

    batch: pa.RecordBatch | None
    offset: Json
    finished: bool = False


class SplitReader(ABC):
    """Reads one split from an offset on."""

    @abstractmethod
    def poll(self, max_rows: int) -> Polled:
        """The next rows. Called again only after what it returned was taken."""

    def close(self) -> None:  # noqa: B027 - most readers hold nothing
        """Give back what the reader holds. Nothing is called after it."""


class Source(ABC):
    """A replayable source of rows of one schema."""

    schema: pa.Schema
    bounded: bool = True
    may_block: bool = False
    """Whether ``poll`` may wait for something: then it is called beside the loop."""
    reads_at_once: int | None = None
    """How many splits a subtask reads at a time; None for all, as endless splits need."""

    @abstractmethod
    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        """The splits whose ids are not in ``seen``. Called by the coordinator, beside its loop.

        A bounded source is planned once; an unbounded one again and again.
        """

    @abstractmethod
    def read(self, split: Split, offset: Json | None) -> SplitReader:
        """A reader of the split, from its beginning where ``offset`` is None."""


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Who is writing. ``lineage`` names the job's history; transactions carry it."""

    uid: str
    subtask: int
    attempt: int
    lineage: str


class SinkWriter(ABC):
    """Writes the rows of one subtask."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Nobody may see them before the handle they go into is committed."""

    @abstractmethod
    def prepare(self, epoch: int) -> bytes | None:
        """Close what was written since the last call into a handle; None if it was nothing.

        Called between two batches, in the synchronous part of a snapshot: it must be quick.
        """

    def close(self) -> None:  # noqa: B027 - most writers hold nothing
        """Give back what the writer holds. Nothing is called after it."""


class Sink(ABC):
    """A two-phase sink. Where ``is_global`` is set its commit is one act for the whole job."""

    is_global: bool = False

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """A writer for one subtask of one attempt."""

    def commit(self, handles: Sequence[bytes]) -> None:
        """Make visible what the handles of one subtask stand for, in order.

        Called on the worker, beside the loop, and again after a failure or a recovery, with
        handles that may have been committed before: committing twice must do no more than
        committing once.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a commit(self, handles) method")

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        """For global sinks: make visible, in one act, what all subtasks prepared up to an epoch.

        Called where the coordinator runs, beside its loop, with the epochs in their order and the
        handles in the order of their epochs and subtasks. A handle may come again, with the same
        epoch or a later one, after a failure, a recovery, or before its commit was confirmed: what
        was committed before must not be committed twice.
        """
        raise NotImplementedError(f"{type(self).__name__} needs commit_epoch(self, epoch, handles)")

    def clean_up(self, attempt: int) -> None:  # noqa: B027 - most sinks leave nothing behind
        """For global sinks: remove what attempts before this one wrote and nobody committed.

        Called once per attempt, after everything that the restored snapshot names is committed.
        """
