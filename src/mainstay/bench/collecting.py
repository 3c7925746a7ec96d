"""Sinks that tell the driver what they saw: how many rows, or how long each row took.

What a subtask saw of an epoch is its handle, so it arrives with the epoch's commit and is exact:
it belongs to the very cut that the snapshot does.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mainstay.runtime.connector import Sink, SinkContext, SinkWriter

Place = tuple[int, int, int]
"""The attempt, the subtask and the epoch that something was seen in."""


class Collecting(Sink):
    """Keeps what its writers saw, in the process that commits."""

    is_global = True

    def __init__(self) -> None:
        self.seen: dict[Place, bytes] = {}

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        for handle in handles:
            attempt, subtask, of_epoch, seen = json.loads(handle)
            # Under its name a handle that comes twice counts once.
            self.seen[attempt, subtask, of_epoch] = b64decode(seen)

    @property
    def last_epoch(self) -> int:
        return max((epoch for _, _, epoch in self.seen), default=0)

    def between(self, after: int, last: int) -> list[bytes]:
        """What was seen after one epoch and up to another."""
        return [seen for (_, _, epoch), seen in self.seen.items() if after < epoch <= last]


class CollectingWriter(SinkWriter):
    """Writes what it saw into its handle."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context

    def prepare(self, epoch: int) -> bytes:
        seen = b64encode(self.take()).decode()
        return json.dumps([self._context.attempt, self._context.subtask, epoch, seen]).encode()

    @abstractmethod
    def take(self) -> bytes:
        """What was seen since the last call."""


class Counting(Collecting):
    """Counts rows."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _CountingWriter(context)

    def rows_until(self, epoch: int) -> int:
        return sum(int(seen) for seen in self.between(0, epoch))


class _CountingWriter(CollectingWriter):
    def __init__(self, context: SinkContext) -> None:
        super().__init__(context)
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows

    def take(self) -> bytes:
        rows, self._rows = self._rows, 0
        return str(rows).encode()


class Timing(Collecting):
    """Keeps the age of every row on arrival, since it was made and since it was due."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _TimingWriter(context)

    def ages_us(self, after: int, last: int) -> np.ndarray:
        """Microseconds since each row was made, and since it was due, in two rows."""
        found = [np.frombuffer(seen, np.int32).reshape(2, -1) for seen in self.between(after, last)]
        return np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int32)


class _TimingWriter(CollectingWriter):
    def __init__(self, context: SinkContext) -> None:
        super().__init__(context)
        self._ages: list[np.ndarray] = []

    def write(self, batch: pa.RecordBatch) -> None:
        now = time.time_ns()
        stamps = [batch.column(name).to_numpy() for name in ("made_ns", "due_ns")]
        self._ages.append(((now - np.stack(stamps)) // 1000).astype(np.int32))

    def take(self) -> bytes:
        ages, self._ages = self._ages, []
        return np.concatenate(ages, axis=1).tobytes() if ages else b""
