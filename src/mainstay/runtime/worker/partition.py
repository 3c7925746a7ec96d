"""Partitioners: which channel of an output gets which rows of a batch.

This is a hot file: hashing and splitting are native column work.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstay.runtime.spec import Broadcast, EdgeSpec, Forward, HashByKey, KeySpec
from mainstay.runtime.worker.output import Partitioner
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import subtasks_of

Parts = list[tuple[int, pa.RecordBatch]]


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

    def split(self, batch: pa.RecordBatch) -> Parts:
        columns = [batch.column(number) for number in self._columns]
        groups = key_groups(columns, self._max_parallelism)
        owners = self._owner_of[groups]
        counts = np.bincount(owners, minlength=self._channels)
        if counts.max(initial=0) == batch.num_rows:
            return [(int(counts.argmax()), batch)]
        ordered = batch.take(pa.array(np.argsort(owners, kind="stable")))
        starts = np.cumsum(counts) - counts
        return [
            (channel, ordered.slice(int(starts[channel]), int(counts[channel])))
            for channel in np.flatnonzero(counts).tolist()
        ]


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
        case _:
            return InTurn(channels, subtask)
