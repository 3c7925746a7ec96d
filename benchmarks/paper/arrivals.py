"""The sink of a measured job: when rows arrived, how old they were, and how many were committed.

Arrivals go to files that the process maps, so that measuring costs a snapshot nothing, and what was
written before a process was killed can be read.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.paper.board import Board, Place
from mainstay.bench.collecting import CollectingWriter, Counting
from mainstay.connectors import SinkContext, SinkWriter

BATCH = np.dtype([("at_ns", np.int64), ("rows", np.int64), ("first_age", np.int64)])
"""A batch that arrived; ``first_age`` is where the ages of its rows begin, -1 if none are kept."""
MOST_BATCHES = 1 << 21
MOST_AGES = 1 << 25
"""Files with holes: what is not written takes no room."""


class Arrivals(Counting):
    """Counts what is committed as ``Counting`` does, and logs what arrives."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place

    def open(self, context: SinkContext) -> SinkWriter:
        return _Writer(context, self.place)


class _Writer(CollectingWriter):
    def __init__(self, context: SinkContext, place: Place) -> None:
        super().__init__(context)
        self._board = Board(place)
        self._line = self._board.sinks[context.subtask]
        self._line["rows"] = self._line["epoch"] = 0
        self._line["pid"] = os.getpid()
        stem = Path(place.directory) / f"arrivals-{context.attempt}-{context.subtask}"
        self._batches = _made(stem.with_suffix(".batches"), BATCH, MOST_BATCHES)
        self._ages = _made(stem.with_suffix(".ages"), np.dtype(np.int32), MOST_AGES)
        self._next_batch = self._next_age = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        now, first_age = time.monotonic_ns(), -1
        due = batch.column("due_ns").to_numpy()
        # Where a pace begins, the last rows without one come together with the first that have one.
        if len(due) and due.min() > 0:
            first_age, self._next_age = self._next_age, self._next_age + len(due)
            self._ages[first_age : self._next_age] = (now - due) // 1000
        self._batches[self._next_batch] = now, len(due), first_age
        self._next_batch += 1
        self._rows += len(due)
        self._line["rows"] += len(due)
        if self._board.is_shut:
            self._board.ring()

    def prepare(self, epoch: int) -> bytes:
        handle = super().prepare(epoch)
        self._line["epoch"] = epoch
        self._board.ring()
        return handle

    def take(self) -> bytes:
        rows, self._rows = self._rows, 0
        return str(rows).encode()


def _made(path: Path, dtype: Any, most: int) -> Any:
    return np.memmap(path, dtype, "w+", shape=(most,))


@dataclass(frozen=True, slots=True)
class Output:
    """What arrived at the sinks of a job within some time, in the order of arrival."""

    began_ns: int
    ended_ns: int
    rows: int
    at_ns: npt.NDArray[np.int64]
    ages_us: npt.NDArray[np.int32]

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds

    @property
    def longest_gap_s(self) -> float:
        """The longest time in which nothing arrived anywhere."""
        times = np.concatenate([[self.began_ns], self.at_ns, [self.ended_ns]])
        return float(np.diff(times).max()) / 1e9

    def age_ms(self, percent: float) -> float:
        """How old rows were on arrival; the oldest at 100 percent."""
        if not len(self.ages_us):
            raise ValueError("no row of this output had a time at which it was due")
        return float(np.percentile(self.ages_us, percent)) / 1000


def output_between(place: Place, began_ns: int, ended_ns: int) -> Output:
    """What the sinks of a job have logged from one time to another."""
    times, ages, rows = [], [], 0
    for path in sorted(Path(place.directory).glob("arrivals-*.batches")):
        batches = np.memmap(path, BATCH, "r")
        all_ages = np.memmap(path.with_suffix(".ages"), np.int32, "r")
        at = batches["at_ns"]
        found = batches[(at >= began_ns) & (at < ended_ns)]
        times.append(found["at_ns"])
        rows += int(found["rows"].sum())
        aged = found[found["first_age"] >= 0]
        if len(aged):
            last = aged[-1]
            ages.append(all_ages[aged[0]["first_age"] : last["first_age"] + last["rows"]])
    every = np.concatenate(ages) if ages else np.zeros(0, np.int32)
    return Output(began_ns, ended_ns, rows, np.sort(np.concatenate(times)), np.array(every))
