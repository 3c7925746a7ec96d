"""Age: whether a job starts, recovers and runs after very many epochs as it does after a few.

On real storage a small job takes an epoch as often as it can; at each mark it loses a worker, and
is stopped and started again from its directory. In the simulated part the coordinator is the real
one, its workers acknowledge at once and its storage is memory: a million epochs take minutes.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count, millis
from mainstay.connectors import Generate, Memory, Rows
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Acknowledge, Attempt, Epoch, Ready, Trigger
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import FileRef, SegmentRef, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.testing.processes import SimulatedClock

REAL_MARKS = (100, 1_000, 5_000, 20_000)
SIMULATED_MARKS = (100, 10_000, 100_000, 1_000_000)
KEYS = 100
_POLL_S = 0.001


def measure(size: Size) -> Iterator[Table]:
    yield _real(tuple(dict.fromkeys(max(20, size.of(mark)) for mark in REAL_MARKS)))
    yield _simulated(tuple(dict.fromkeys(max(20, size.of(mark)) for mark in SIMULATED_MARKS)))


# ---------------------------------------------------------------- real storage


class Total(ms.KeyedProcess):
    """A count for each key."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.total.update((self.total.get() or 0) + 1)


def _rows(first: int, rows: int) -> pa.RecordBatch:
    numbers = [number % KEYS for number in range(first, first + rows)]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=["key"])


def _job(folder: Path) -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=1,
        snapshots=ms.Snapshots(folder, every="1ms"),
        restart=ms.Restart(backoff="1ms"),
        restore="latest-or-new",
    )
    source = Generate("key long", partial(_rows), splits=1, rows_per_second=1000)
    keyed = env.source(source, uid="numbers").key_by("key")
    keyed.process(Total(), "key long", uid="totals").sink(Memory(), uid="out")
    return env.start("age")


def _real(marks: tuple[int, ...]) -> Table:
    table = Table(
        "A job on a disk",
        ["epochs", "start ms", "recovery ms", "files listed", "memory MiB"],
        "Start: from `env.start` to running, in a new job of this process. Recovery: from the loss "
        "of the worker to running again. Memory: of the whole process.",
    )
    folder = Path(tempfile.mkdtemp(prefix="mainstay-age-"))
    try:
        for mark in marks:
            start_s, recovery_s, files = _at(folder, mark)
            gc.collect()
            memory = psutil.Process().memory_info().rss / 2**20
            table.add(count(mark), millis(start_s), millis(recovery_s), count(files), count(memory))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return table


def _at(folder: Path, mark: int) -> tuple[float, float, int]:
    job = _job(folder)
    _await(job, lambda: _newest(job) >= mark)
    attempts = len(job.attempts())
    began = time.perf_counter()
    job.crash_worker(0)
    _await(job, lambda: len(job.attempts()) > attempts and job.status == "running")
    recovery_s = time.perf_counter() - began
    job.cancel()
    began = time.perf_counter()
    job = _job(folder)
    _await(job, lambda: job.status == "running")
    start_s = time.perf_counter() - began
    job.cancel()
    return start_s, recovery_s, sum(path.is_file() for path in folder.rglob("*"))


def _newest(job: Any) -> int:
    return max((record.epoch for record in job.snapshots()[-3:]), default=0)


def _await(job: Any, is_true: Callable[[], bool]) -> None:
    while not is_true():
        if job.status == "failed":
            job.wait()
        time.sleep(_POLL_S)


# ---------------------------------------------------------------- simulated


@dataclass
class Leader:
    """A coordinator whose workers acknowledge at once and whose work is done at once."""

    job: JobSpec
    storage: MemoryStorage
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    work: deque[Callable[[], None]] = field(default_factory=deque)
    tokens: int = 0
    attempt: Attempt = field(default=Attempt(0))

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(
            self.job,
            JobOptions(
                "age",
                "age",
                SnapshotOptions(every_s=1.0),
                RestartOptions(backoff_s=0.01),
                RestoreOptions("latest-or-new"),
            ),
            Ports(self.clock, self, self._send, self.storage),
            self,
            self._token,
        )

    def _token(self) -> str:
        self.tokens += 1
        return f"{id(self)}-{self.tokens}"

    def submit(self, work: Any, done: Any, failed: Any) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                failed(error)
            else:
                done(result)

        self.work.append(run)

    counts_room = False

    def room(self) -> int:
        raise NotImplementedError("nothing runs")

    def launch(self, deployment: Deployment) -> None:
        self.attempt = deployment.attempt

    def end(self, attempt: Attempt) -> None:
        """Nothing runs."""

    def _send(self, to: int, message: Any) -> None:
        if isinstance(message, Trigger):
            self.work.append(partial(self._acknowledge, to, message.epoch))

    def _acknowledge(self, worker: int, epoch: Epoch) -> None:
        for task, subtask in self.job.subtasks():
            if subtask == worker:
                states = {each.uid: self._state(each, subtask, epoch) for each in task.operators}
                message = Acknowledge(self.attempt, epoch, task.id, subtask, states)
                self.coordinator.receive(message)

    def _state(self, operator: Any, subtask: int, epoch: int) -> SubtaskState:
        if operator.key is None:
            return SubtaskState(subtask, ())
        path = f"state/{operator.uid}/a{self.attempt:04d}/s{subtask:04d}-e{epoch}.msty"
        self.storage.write(path, b"state")
        file = FileRef(path, 5, "crc32:0")
        return SubtaskState(subtask, (SegmentRef(f"e{epoch}", file, 0, 127, 1, is_base=True),))

    def settle(self) -> None:
        while self.work:
            self.work.popleft()()

    def start(self) -> None:
        self.coordinator.start()
        self.settle()
        self._ready()

    def _ready(self) -> None:
        for worker in range(self.job.workers):
            self.coordinator.receive(Ready(self.attempt, worker))
        self.settle()

    def epoch(self) -> None:
        self.clock.now += 1.0
        self.coordinator.tick()
        self.settle()

    def recover(self) -> None:
        self.coordinator.workers_lost(self.attempt, "it was killed", 0)
        self.clock.now += 1.0
        self.coordinator.tick()
        self.settle()
        self._ready()


def _plan() -> JobSpec:
    env = ms.Environment(parallelism=1)
    keyed = env.source(Rows("key long", [(1,)]), uid="numbers").key_by("key")
    keyed.process(Total(), "key long", uid="totals").sink(Memory(), uid="out")
    return env.plan()


def _simulated(marks: tuple[int, ...]) -> Table:
    table = Table(
        "The coordinator alone",
        ["epochs", "µs an epoch", "start ms", "recovery ms", "files listed", "memory MiB"],
        "Its storage is in the same memory.",
    )
    job, storage = _plan(), MemoryStorage()
    leader, done = Leader(job, storage), 0
    leader.start()
    for mark in marks:
        began, epochs = time.perf_counter(), mark - done
        for _ in range(epochs):
            leader.epoch()
        per_epoch = (time.perf_counter() - began) / max(epochs, 1)
        done = mark
        recovery_s = _timed(leader.recover)
        now = leader.clock.now
        leader = Leader(job, storage, replace_clock(now))
        start_s = _timed(leader.start)
        gc.collect()
        table.add(
            count(mark),
            f"{per_epoch * 1e6:.0f}",
            millis(start_s),
            millis(recovery_s),
            count(len(storage.list(""))),
            count(psutil.Process().memory_info().rss / 2**20),
        )
    return table


def replace_clock(now: float) -> SimulatedClock:
    clock = SimulatedClock()
    clock.now = now
    return clock


def _timed(action: Callable[[], None]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
