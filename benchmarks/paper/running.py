"""One run: a job in one mode, with rows as fast as it takes them and then with rows at a pace."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

import mainstay as ms
from benchmarks.paper.arrivals import Output, output_between
from benchmarks.paper.board import Board, Place
from benchmarks.paper.conductor import Conductor, Cycle, conducting
from benchmarks.paper.job import PaperJob
from benchmarks.paper.modes import Mode
from benchmarks.report import median
from mainstay.bench.running import PROCESSES, await_true, start
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.snapshot.object_storage import open_storage

BY_REQUEST = "1d"
"""The interval of the job's own epochs: the conductor asks for all of them."""
SETTLE_CYCLES = 2
"""How many snapshots pass before what is measured begins."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job and how often its snapshots are taken."""

    keys: int = 100_000
    workers: int = 2
    shuffles: int = 1
    every_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one run came to. ``full``: with rows as fast as they were taken. ``paced``: at a pace.

    ``others_cores``: how many cores other programs kept busy meanwhile.
    """

    mode: str
    case: Case
    is_right: bool
    full: dict[str, float]
    paced: dict[str, float]
    load: float
    others_cores: float
    round: int = 0


@dataclass(slots=True)
class Running:
    """A job that runs in a mode, and all that belongs to it."""

    job: RemoteJob
    env: ms.Environment
    built: PaperJob
    conductor: Conductor
    directory: str
    is_right: bool | None = field(default=None)
    """Known when the job has stopped: whether state and output are those of what was read."""

    def await_true(self, is_true: Callable[[], bool], what: str) -> None:
        """Wait for something that the job will bring about while its snapshots are taken."""

        def is_true_or_broken() -> bool:
            self.conductor.check()
            return is_true()

        await_true(self.job, is_true_or_broken, what)

    def await_cycles(self, more: int) -> None:
        """Wait for the end of so many cycles from now on."""
        wanted = len(self.conductor.cycles) + more
        self.await_true(lambda: len(self.conductor.cycles) >= wanted, "a snapshot")

    def stop(self) -> None:
        """End in good order, and look at what is left."""
        self.conductor.end()
        self.conductor.open()
        self.job.stop()
        self.is_right = self.built.is_right(open_storage(self.directory), self.env)


@contextmanager
def running(case: Case, mode: Mode) -> Iterator[Running]:
    """A job in a mode, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        place = Place(directory, case.workers)
        board = Board.create(place)
        snapshots = os.path.join(directory, "snapshots")
        env = ms.Environment(
            parallelism=case.workers,
            mode=mode.core,
            snapshots=ms.Snapshots(snapshots, every=BY_REQUEST),
            restart=ms.Restart(backoff="100ms"),
        )
        built = PaperJob.at(place, case.keys, case.shuffles)
        built.build(env)
        job = start(env, "paper", PROCESSES)
        pause_s = mode.least_pause * case.every_s
        conductor = Conductor(job, place, board, mode.make(), case.every_s, pause_s)
        with conducting(conductor, job):
            yield Running(job, env, built, conductor, snapshots)


def measure(case: Case, mode: Mode, seconds: float, pace: float | None) -> Run:
    """Run a job in a mode: with rows as fast as they come, then ``pace`` rows a second; None for a
    quarter of what it took before."""
    load, busy, began = os.getloadavg()[0], _busy_s(), time.monotonic()
    with running(case, mode) as found:
        await_full(found, case.keys)
        full = _window(found, seconds)
        pace = pace or full.output.rows_per_s / 4
        found.conductor.pace(pace)
        _await_arrival(found, found.conductor.rows_given)
        paced = _window(found, seconds)
        found.stop()
    assert found.is_right is not None
    elapsed_s = time.monotonic() - began
    others = (_busy_s() - busy) / elapsed_s
    return Run(mode.name, case, found.is_right, full.figures(), paced.figures(pace), load, others)


def await_full(found: Running, keys: int) -> None:
    """Wait until every key has its entry."""
    found.await_true(lambda: found.conductor.rows_given >= keys, f"a state of {keys:,} keys")


def _await_arrival(found: Running, rows: int) -> None:
    """Wait until so many rows have come out."""
    found.await_true(lambda: found.conductor.rows_arrived >= rows, f"the arrival of {rows:,} rows")


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between the beginnings of two cycles."""

    output: Output
    cycles: list[Cycle]
    epochs: list[EpochRecord]

    def figures(self, pace: float | None = None) -> dict[str, float]:
        """The figures of the window; with a pace, those that only rows with an age have."""
        found = {
            "rows_per_s": self.output.rows_per_s,
            "gap_ms": self.output.longest_gap_s * 1e3,
            "cycles": float(len(self.cycles)),
        }
        if self.epochs:
            slowest = [max(f.alignment_s for f in e.figures.values()) for e in self.epochs]
            found["alignment_ms"] = median(slowest) * 1e3
            found["epoch_bytes"] = median([epoch.size_bytes for epoch in self.epochs])
            found["took_ms"] = median([cycle.took_s for cycle in self.cycles]) * 1e3
            found["stopped_ms"] = median([cycle.stopped_s for cycle in self.cycles]) * 1e3
        if pace is not None:
            found["pace"] = pace
            found |= {f"p{p:g}_ms": self.output.age_ms(p) for p in (50, 99, 100)}
        return found


def _window(found: Running, seconds: float) -> Window:
    """Look at a job between two cycles that lie some seconds apart, once it has settled."""
    conductor, job = found.conductor, found.job
    for _ in range(SETTLE_CYCLES):
        conductor.next_beginning()
    began = ended = conductor.next_beginning()
    arrived = conductor.rows_arrived
    # A window without a row, as a busy machine makes short ones, says nothing.
    while ended - began < seconds * 1e9 or conductor.rows_arrived == arrived:
        ended = conductor.next_beginning()
    if len(job.attempts()) > 1:
        raise RuntimeError(f"the job was restarted while it was measured: {job.attempts()}")
    cycles = [each for each in conductor.cycles if began <= each.began_ns < ended]
    numbers = {each.epoch for each in cycles}
    epochs = [record for record in job.snapshots() if record.epoch in numbers]
    output = output_between(found.built.place, began, ended)
    return Window(output, cycles, epochs)


def _busy_s() -> float:
    """Seconds for which other programs have kept cores busy so far: all but this one's, and those
    of its processes that have ended."""
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
    # Time of guests is in that of users as well.
    busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return float(busy) - sum(each.ru_utime + each.ru_stime for each in own)
