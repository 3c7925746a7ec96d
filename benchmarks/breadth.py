"""What grows with the parallelism: a coordinator whose workers are made up, and a real worker.

The workers of the coordinator acknowledge everything at once, with a segment for each subtask of
each operator. The real worker has the channels of all the others and takes one empty epoch: a
marker from each of them. Figures are seconds of the processor.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mainstay as ms
from benchmarks.breadth_before import beside
from benchmarks.many_splits import splits_table
from benchmarks.report import FULL, Size, Table, count, median
from mainstay.connectors import Memory, Rows
from mainstay.drive.shipment import Shipment
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.recovery import plan_restore
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import (
    Acknowledge,
    Attempt,
    Data,
    Epoch,
    Marker,
    Ready,
    Trigger,
)
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import segment_path
from mainstay.snapshot.manifest import FileRef, Manifest, SegmentRef, SubtaskState
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import BytesLike
from mainstay.state.keygroups import range_of

OPERATORS = (1, 5, 20)
PARALLELISMS = (1, 16, 256, 1000)
SEGMENTS = 3
"""Segments of a subtask's chain."""
IDLE_STEPS = 20
MOST_DELETED = 1000
"""Objects that S3 deletes for one request."""


class Total(ms.KeyedProcess):
    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        return row


def plan(operators: int, parallelism: int) -> JobSpec:
    """Operators one behind the other, with a shuffle before each."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=1024)
    rows = env.source(Rows("k string, n long", [("a", 1)]), uid="rows")
    for number in range(operators):
        rows = rows.key_by("k").process(Total(), "k string, n long", uid=f"total-{number}")
    rows.sink(Memory(), uid="out")
    return env.plan()


class Clock:
    """Stands still until it is advanced."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    wall = cpu = monotonic


class Counted(MemoryStorage):
    """Counts what an object store would be asked for."""

    requests = 0

    def write(self, path: str, data: BytesLike) -> None:
        self.requests += 1
        super().write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        self.requests += 1
        return super().create(path, data)

    def delete(self, *paths: str) -> None:
        self.requests += -(-len(paths) // MOST_DELETED)
        super().delete(*paths)


class Later:
    """Work in the background, done when the loop asks for it."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def submit(
        self, work: Callable[[], Any], done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        self._queue.append((work, done))

    def drain(self) -> None:
        while self._queue:
            work, done = self._queue.popleft()
            done(work())


@dataclass
class MadeUpCluster:
    """Notes what is launched."""

    deployments: list[Deployment] = field(default_factory=list)
    counts_room = False

    def room(self) -> None:
        return None

    def launch(self, deployment: Deployment) -> None:
        self.deployments.append(deployment)

    def end(self, attempt: Attempt) -> None:
        return None


class World:
    """A coordinator on a storage in memory, and what its workers say."""

    def __init__(self, job: JobSpec, storage: Counted, start: str) -> None:
        self.job, self.storage = job, storage
        self.sent: list[Any] = []
        self.clock, self.background, self.cluster = Clock(), Later(), MadeUpCluster()
        self.ports = Ports(self.clock, self.background, lambda _, m: self.sent.append(m), storage)
        options = JobOptions(
            "breadth",
            "lineage",
            SnapshotOptions(every_s=1.0),
            RestartOptions(),
            RestoreOptions(start=start),
        )
        again = Succession(plan_at=lambda parallelism: job)
        self.coordinator = Coordinator(
            job, options, self.ports, self.cluster, lambda: f"leader-{start}", again
        )
        self.coordinator.start()
        self.background.drain()

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.coordinator.attempts[-1].attempt)

    def manifest(self) -> Manifest:
        """That of the latest epoch."""
        latest = read_history(self.storage).latest_epoch
        assert latest is not None
        return read_manifest(self.storage, latest.manifest)

    def ready(self) -> None:
        for worker in range(self.job.workers):
            self.coordinator.receive(Ready(self.attempt, worker))
        self.background.drain()

    def epoch(self) -> float:
        """One epoch from its trigger to the log, and what only older ones needed is deleted."""
        self.clock.now += 1.0
        answers = self._answers()
        self.sent.clear()
        began = time.process_time()
        self.coordinator.tick()
        assert any(isinstance(message, Trigger) for message in self.sent)
        for answer in answers:
            self.coordinator.receive(answer)
        self.background.drain()
        return time.process_time() - began

    def _answers(self) -> list[Acknowledge]:
        assert self.coordinator.attempts
        number = len(read_history(self.storage).lineage_epochs()) + 1
        return [
            Acknowledge(
                self.attempt,
                Epoch(number),
                task.id,
                subtask,
                {
                    o.uid: self._state(o.uid, subtask, number, o.key is not None)
                    for o in task.operators
                },
            )
            for task, subtask in self.job.subtasks()
        ]

    def _state(self, uid: str, subtask: int, epoch: int, is_keyed: bool) -> SubtaskState:
        if not is_keyed:
            return SubtaskState(subtask, ())
        owned = range_of(subtask, self.job.workers, self.job.max_parallelism)
        names = [f"e{number}" for number in range(max(1, epoch - SEGMENTS + 1), epoch + 1)]
        refs = []
        for name in names:
            path = segment_path(uid, subtask, self.attempt, name)
            refs.append(SegmentRef(name, FileRef(path, 5, "crc32:0"), owned.first, owned.last, 1))
        return SubtaskState(subtask, tuple(refs))


def measure(size: Size) -> list[Table]:
    coordinator, worker = _tables()
    for operators in OPERATORS:
        for parallelism in sorted({size.of(each) for each in PARALLELISMS}):
            _coordinate(coordinator, operators, parallelism, size.repeats)
            _work(worker, operators, parallelism, size.repeats)
    tables = [coordinator, worker]
    return [*(beside(tables) if size is FULL else tables), splits_table(size)]


def _tables() -> tuple[Table, Table]:
    coordinator = Table(
        "The coordinator",
        [
            "operators x subtasks",
            "epoch s",
            "plan s",
            "rescale s",
            "ship s",
            "ship bytes",
            "requests",
        ],
        "CPU of one epoch, from its trigger until it is in the log and old files are deleted; of "
        "planning a restore at the same parallelism, and at half of it; of making what workers are "
        "sent, and its bytes. Requests are those of the coordinator to the storage, in an epoch.",
    )
    worker = Table(
        "One worker",
        ["operators x subtasks", "build s", "idle step ms", "epoch s"],
        "CPU of a worker among so many: its making, a step with nothing to do, an empty epoch.",
    )
    return coordinator, worker


def _coordinate(table: Table, operators: int, parallelism: int, repeats: int) -> None:
    job, storage = plan(operators, parallelism), Counted()
    world = World(job, storage, "new")
    world.ready()
    for _ in range(SEGMENTS + 2):
        world.epoch()
    before = storage.requests
    epoch_s = median([world.epoch() for _ in range(repeats)])
    requests = (storage.requests - before) // repeats
    manifest = world.manifest()
    plan_s = median([_planning(manifest, job) for _ in range(repeats)])
    half = plan(operators, max(1, parallelism // 2))
    rescale_s = median([_planning(manifest, half) for _ in range(repeats)])
    ship_s, size_bytes = _shipped(World(job, storage, "latest").cluster.deployments[0])
    cells = (f"{each:.3f}" for each in (epoch_s, plan_s, rescale_s, ship_s))
    table.add(f"{operators} x {parallelism:,}", *cells, count(size_bytes), count(requests))


def _planning(manifest: Manifest, job: JobSpec) -> float:
    began = time.process_time()
    plan_restore(manifest, job, frozenset())
    return time.process_time() - began


def _shipped(deployment: Deployment) -> tuple[float, int]:
    """How long it takes to make what all workers are sent, and its bytes."""
    began = time.process_time()
    sent = [len(each) for each in shipped(deployment)]
    return time.process_time() - began, sum(sent)


def shipped(deployment: Deployment) -> Iterator[bytes]:
    shipment = Shipment(deployment)
    for worker in range(deployment.job.workers):
        yield shipment.shared + shipment.part(worker)


def _work(table: Table, operators: int, parallelism: int, repeats: int) -> None:
    """Worker 0, whose every neighbour sends a marker."""
    job = plan(operators, parallelism)
    clock, background, sent = Clock(), Later(), []
    ports = Ports(clock, background, lambda _, message: sent.append(message), Counted())
    began = time.process_time()
    worker = Worker(Deployment(job, Attempt(1), "lineage"), 0, ports)
    build_s = time.process_time() - began
    _settle(worker, background)
    idle_s = median([_idle(worker) for _ in range(repeats)])
    epoch_s = median([_empty_epoch(worker, background, clock, job, n + 1) for n in range(repeats)])
    table.add(
        f"{operators} x {parallelism:,}", f"{build_s:.3f}", f"{idle_s * 1e3:.2f}", f"{epoch_s:.3f}"
    )


def _settle(worker: Worker, background: Later) -> None:
    background.drain()
    while worker.step():
        background.drain()


def _idle(worker: Worker) -> float:
    began = time.process_time()
    for _ in range(IDLE_STEPS):
        worker.step()
    return (time.process_time() - began) / IDLE_STEPS


def _empty_epoch(
    worker: Worker, background: Later, clock: Clock, job: JobSpec, number: int
) -> float:
    """From the trigger until the worker has nothing left to do for the epoch."""
    clock.now += 1.0
    attempt, epoch = Attempt(1), Epoch(number)
    edges = [edge for task in job.tasks for edge in task.inputs]
    inputs = [id for edge in edges for id, sender in edge.incoming(0) if sender != 0]
    began = time.process_time()
    worker.receive(Trigger(attempt, epoch, False))
    for channel in inputs:
        worker.receive(Data(attempt, channel, number - 1, Marker(epoch), 0))
        worker.step()
    _settle(worker, background)
    return time.process_time() - began
