"""Partitioners: which channel of an output gets which rows of a batch.

This is a hot file: hashing and splitting are native column work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstay.errors import MainstayError
from mainstay.runtime.choosing import Chooser, Subtasks
from mainstay.runtime.operators.base import user_error
from mainstay.runtime.spec import Broadcast, Chosen, EdgeSpec, Forward, HashByKey, KeySpec
from mainstay.runtime.worker.output import Partitioner
from mainstay.state.hashing import few_key_groups, key_groups
from mainstay.state.keygroups import subtasks_of

Parts = list[tuple[int, pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Sender:
    """The operator whose rows are sent, and its subtask."""

    uid: str
    subtask: int


class ToOne:
    """Everything to the only channel."""

    is_shared_out = False

    def split(self, batch: pa.RecordBatch) -> Parts:
        return [(0, batch)]


class ToEach:
    """Everything to every channel."""

    is_shared_out = False

    def __init__(self, channels: int) -> None:
        self._channels = range(channels)

    def split(self, batch: pa.RecordBatch) -> Parts:
        return [(channel, batch) for channel in self._channels]


class InTurn:
    """Whole batches, round-robin; each sender starts at a channel of its own."""

    is_shared_out = False

    def __init__(self, channels: int, start: int) -> None:
        self._channels = channels
        self._next = start % channels

    def split(self, batch: pa.RecordBatch) -> Parts:
        chosen, self._next = self._next, (self._next + 1) % self._channels
        return [(chosen, batch)]


class ByKeyGroup:
    """Each row to the owner of its key-group, in the order of the batch."""

    is_shared_out = True

    def __init__(self, key: KeySpec, channels: int, max_parallelism: int) -> None:
        self._columns = key.columns
        self._channels = channels
        self._max_parallelism = max_parallelism
        every = np.arange(max_parallelism)
        # In 16 bits, which numpy sorts with a radix sort.
        self._owner_of = subtasks_of(every, channels, max_parallelism).astype(np.uint16)
        self._owners: list[int] = self._owner_of.tolist()

    def split(self, batch: pa.RecordBatch) -> Parts:
        columns = [batch.column(number) for number in self._columns]
        few = few_key_groups(columns, self._max_parallelism)
        if few is not None:
            return _few_shared_out(batch, [self._owners[group] for group in few])
        groups = key_groups(columns, self._max_parallelism)
        return _shared_out(batch, self._owner_of[groups], self._channels)


class ByChoice:
    """Each row to the subtask that the job's author says, in the order of the batch."""

    is_shared_out = True

    def __init__(self, chooser: Chooser, channels: int, sender: Sender) -> None:
        self._chooser = chooser
        self._channels = channels
        self._sender = sender

    def split(self, batch: pa.RecordBatch) -> Parts:
        chosen = chosen_subtasks(self._chooser, batch, self._channels, self._sender)
        return _shared_out(batch, chosen.astype(np.uint16), self._channels)


def chosen_subtasks(
    chooser: Chooser, batch: pa.RecordBatch, parallelism: int, sender: Sender
) -> Subtasks:
    """Which subtask each row goes to; what the author's code raises names who sends the rows."""
    try:
        return chooser.subtasks(batch, parallelism)
    except MainstayError as error:
        raise MainstayError(f"operator {sender.uid!r}: {error}") from error
    except BaseException as error:
        raise user_error(sender, error, "partition_by") from error


def _shared_out(batch: pa.RecordBatch, owners: np.ndarray, channels: int) -> Parts:
    """Each row to its owner; the rows of each in the order of the batch."""
    counts = np.bincount(owners, minlength=channels)
    if counts.max(initial=0) == batch.num_rows:
        return [(int(counts.argmax()), batch)]
    ordered = batch.take(pa.array(np.argsort(owners, kind="stable")))
    starts = np.cumsum(counts) - counts
    return [
        (channel, ordered.slice(int(starts[channel]), int(counts[channel])))
        for channel in np.flatnonzero(counts).tolist()
    ]


def _few_shared_out(batch: pa.RecordBatch, owners: list[int]) -> Parts:
    """The same for a few rows: numpy would take longer for its calls alone."""
    parts: Parts = []
    for channel in sorted(set(owners)):
        rows = [row for row, owner in enumerate(owners) if owner == channel]
        if len(rows) == len(owners):
            return [(channel, batch)]
        are_neighbours = rows[-1] - rows[0] == len(rows) - 1
        part = batch.slice(rows[0], len(rows)) if are_neighbours else batch.take(pa.array(rows))
        parts.append((channel, part))
    return parts


def partitioner_for(edge: EdgeSpec, subtask: int, max_parallelism: int) -> Partitioner:
    """The partitioner of one sending subtask of an edge."""
    channels = edge.receiver_parallelism
    match edge.partitioning:
        case Forward():
            return ToOne()
        case _ if channels == 1:
            return ToOne()
        case Broadcast():
            return ToEach(channels)
        case HashByKey(key):
            return ByKeyGroup(key, channels, max_parallelism)
        case Chosen(chooser):
            return ByChoice(chooser, channels, Sender(edge.name.sender, subtask))
        case _:
            return InTurn(channels, subtask)
