"""A snapshot that stops the world: the baseline that pipelined snapshots are compared with.

Its coordinator is this benchmark: it pauses the sources, lets everything under way arrive, takes
the snapshot while nothing moves, and resumes when it is durable.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench_worker import BenchWorker, Counting, Endless
from benchmarks.ours.price import totals_worker
from benchmarks.ours.visits import Visits
from mainstay.connectors import Polled, Split, SplitReader


class Pausable(Endless):
    """A source that can be told to give nothing."""

    is_paused = False

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _PausableReader(self, super().read(split, offset))


class _PausableReader(SplitReader):
    def __init__(self, source: Pausable, reader: SplitReader) -> None:
        self._source = source
        self._reader = reader

    def poll(self, max_rows: int) -> Polled:
        if self._source.is_paused:
            return Polled(None, self._source.given)
        return self._reader.poll(max_rows)


@dataclass(slots=True)
class World:
    """One worker under full load, and what its snapshots did to it."""

    source: Pausable
    sink: Counting
    worker: BenchWorker
    stopped_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)

    def pipelined(self) -> None:
        """A snapshot as it is: the worker goes on. It is deaf for its longest gap."""
        began = time.perf_counter()
        self.worker.trigger()
        self.worker.run_until(lambda: self.worker.is_acknowledged)
        self.total_s.append(time.perf_counter() - began)
        self.stopped_s.append(max(self.worker.gaps))
        self.worker.complete()

    def stopping(self) -> None:
        """Pause, drain, snapshot, resume."""
        began = time.perf_counter()
        self.source.is_paused = True
        self.worker.run_until(lambda: self.sink.rows == self.source.given)
        self.worker.trigger()
        self.worker.run_until(lambda: self.worker.is_acknowledged)
        self.worker.complete()
        self.source.is_paused = False
        elapsed_s = time.perf_counter() - began
        self.total_s.append(elapsed_s)
        self.stopped_s.append(elapsed_s)

    def rate(self, seconds: float, every_s: float, snapshot: Callable[[], None] | None) -> float:
        """Records a second while snapshots of a kind are taken at an interval."""
        self.stopped_s, self.total_s = [], []
        before, began = self.sink.rows, time.perf_counter()
        while time.perf_counter() - began < seconds:
            due = time.perf_counter() + every_s
            if snapshot is not None:
                snapshot()
            self.worker.run_until(lambda due=due: time.perf_counter() >= due)
        return (self.sink.rows - before) / (time.perf_counter() - began)


class Worlds:
    """A world with a state of some size, for as long as the block lasts."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._directory = tempfile.TemporaryDirectory(prefix="mainstay-bench-")

    def __enter__(self) -> World:
        source, sink = Pausable(Visits(self._pages)(0, self._pages)), Counting()
        worker = totals_worker(source, sink, self._directory.name)
        worker.run_until(lambda: source.given >= self._pages)
        world = World(source, sink, worker)
        world.pipelined()
        self._world = world
        return world

    def __exit__(self, *error: object) -> None:
        self._world.worker.close()
        self._directory.cleanup()
