"""A worker with nothing around it: driven here step by step, with real threads and storage.

This is the loop of the embedded drive without its coordinator, whose part the benchmark plays.
The time from the beginning of one pass of the loop to the beginning of the next is a *gap*:
for as long as a gap lasts the worker is deaf to markers, queries and its inputs.
"""

from __future__ import annotations

import queue
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pyarrow as pa

from mainstay.connectors import Polled, Sink, SinkContext, SinkWriter, Source, Split, SplitReader
from mainstay.drive.background import Report, ThreadBackground
from mainstay.drive.clock import SystemClock
from mainstay.drive.compiling import programs_of
from mainstay.native.kernels import NumbaKernels
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import (
    Acknowledge,
    AssignSplits,
    Attempt,
    Decline,
    Epoch,
    EpochComplete,
    Figures,
    Release,
    Trigger,
)
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.storage import Storage

ATTEMPT = Attempt(1)
SOURCE_UID = "source"


class Endless(Source):
    """The same batch again and again. ``focus`` bounds the rows of it that are given."""

    bounded = False

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.schema = batch.schema
        self.batch = batch
        self.focus = batch.num_rows
        self.given = 0

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _EndlessReader(self)


class _EndlessReader(SplitReader):
    def __init__(self, source: Endless) -> None:
        self._source = source
        self._position = 0

    def poll(self, max_rows: int) -> Polled:
        source = self._source
        if self._position >= source.focus:
            self._position = 0
        rows = min(max_rows, source.focus - self._position)
        taken = source.batch.slice(self._position, rows)
        self._position += rows
        source.given += rows
        return Polled(taken, source.given)


class Counting(Sink):
    """Counts rows and forgets them."""

    def __init__(self) -> None:
        self.rows = 0

    def open(self, context: SinkContext) -> SinkWriter:
        return _CountingWriter(self)

    def commit(self, handles: Sequence[bytes]) -> None:
        """Nothing is ever prepared."""


class _CountingWriter(SinkWriter):
    def __init__(self, sink: Counting) -> None:
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.rows += batch.num_rows

    def prepare(self, epoch: int) -> bytes | None:
        return None


class BenchWorker:
    """The only worker of a job, and the loop that drives it. It spins, unless it is to wait."""

    def __init__(self, job: JobSpec, storage: Storage, *, waits: bool = False) -> None:
        self._waits = waits
        self.gaps = array("d")
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="bench")
        self._background = ThreadBackground(self._pool, self._reports)
        self._acknowledged: dict[str, Figures] = {}
        self._tasks = len(job.tasks)
        self._epoch = Epoch(0)
        kernels = NumbaKernels()
        for program in programs_of(job):
            kernels.load(program)
        ports = Ports(SystemClock(), self._background, self._hear, storage, kernels=kernels)
        self._worker = Worker(Deployment(job, ATTEMPT, "bench"), 0, ports)
        splits = (Split("all"),)
        self._worker.receive(AssignSplits(ATTEMPT, SOURCE_UID, 0, splits, last=False))

    def _hear(self, to: int, message: Any) -> None:
        if isinstance(message, Decline):
            raise RuntimeError(f"epoch {message.epoch} failed: {message.reason}")
        if isinstance(message, Acknowledge) and message.epoch == self._epoch:
            self._acknowledged[message.task] = message.figures

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Drive the loop; ``gaps`` then holds the gaps of this call only."""
        self.gaps = array("d")
        began = time.perf_counter()
        while not is_done():
            while not self._reports.empty():
                self._reports.get()()
            if not self._worker.step() and self._waits:
                self._await_report()
            now = time.perf_counter()
            self.gaps.append(now - began)
            began = now

    def _await_report(self) -> None:
        """Leave the interpreter to the threads in the background, as a drive does."""
        with suppress(queue.Empty):
            self._reports.get(timeout=0.002)()

    def keyed_backend(self, uid: str) -> Any:
        """The backend that keeps the state of an operator."""
        return self._worker.by_uid[uid].keyed.backend

    def rows_taken(self, uid: str) -> int:
        """How many rows the task of an operator has processed."""
        return next(
            task.chain.rows
            for task in self._worker.tasks
            if any(member.uid == uid for member in task.members)
        )

    def run_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        self.run_until(lambda: time.perf_counter() >= end)

    def trigger(self) -> None:
        """Begin an epoch. Run until ``is_acknowledged``, then ``complete`` it."""
        self._epoch = Epoch(self._epoch + 1)
        self._acknowledged = {}
        self._worker.receive(Trigger(ATTEMPT, self._epoch))

    @property
    def is_acknowledged(self) -> bool:
        return len(self._acknowledged) == self._tasks

    def complete(self) -> list[Figures]:
        """Tell the worker that the epoch is committed; what its tasks measured of it."""
        self._worker.receive(EpochComplete(ATTEMPT, self._epoch))
        return list(self._acknowledged.values())

    def close(self) -> None:
        self._worker.receive(Release(ATTEMPT))
        self._background.close()
        self._pool.shutdown()
