"""The world as the runtime sees it, in the hands of a test: time, messages, work, storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import OutcomeUnknownError, SnapshotStorageError
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import BytesLike


class FakeClock:
    """Stands still until it is advanced."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_000_000.0 + self.now

    def cpu(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass(eq=False)
class Work:
    """Background work: done when the test says so, reported when the test says so."""

    work: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]

    def perform(self) -> Callable[[], None]:
        """Do it; what is returned reports its end."""
        try:
            result = self.work()
        except Exception as error:
            failure = error
            return lambda: self.failed(failure)
        return lambda: self.done(result)

    def run(self) -> None:
        self.perform()()

    def fail(self, error: Exception) -> None:
        """Report a failure without having done anything."""
        self.failed(error)


class FakeBackground:
    """Queues work; nothing happens until the test runs it."""

    def __init__(self) -> None:
        self.queue: list[Work] = []

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.queue.append(Work(work, done, failed))

    def take(self) -> Work:
        return self.queue.pop(0)

    def run_one(self) -> None:
        self.take().run()

    def drain(self) -> None:
        for _ in range(200):
            if not self.queue:
                return
            self.run_one()
        raise AssertionError("background work never ends")


class FakeStorage(MemoryStorage):
    """Notes what is stored and deleted, and fails as it is told to."""

    def __init__(self, events: list[tuple[Any, ...]]) -> None:
        super().__init__()
        self.events = events
        self.faults: list[tuple[str, str, str]] = []

    def fail(self, verb: str, prefix: str, how: str = "refused") -> None:
        """Fail the next such call: "refused", "unknown" (not done) or "unknown-done"."""
        self.faults.append((verb, prefix, how))

    def _fault(self, verb: str, path: str) -> str | None:
        for fault in self.faults:
            if fault[0] == verb and path.startswith(fault[1]):
                self.faults.remove(fault)
                return fault[2]
        return None

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self._fault("read", path):
            raise SnapshotStorageError(f"planted: {path} could not be read")
        return super().read(path, start, length)

    def write(self, path: str, data: BytesLike) -> None:
        if self._fault("write", path):
            raise SnapshotStorageError(f"planted: {path} could not be written")
        self.events.append(("write", path))
        super().write(path, data)

    def create(self, path: str, data: BytesLike) -> bool:
        how = self._fault("create", path)
        if how == "refused":
            raise SnapshotStorageError(f"planted: {path} could not be created")
        if how == "unknown":
            raise OutcomeUnknownError(f"planted: {path} may have been created")
        created = super().create(path, data)
        self.events.append(("create", path))
        if how == "unknown-done":
            raise OutcomeUnknownError(f"planted: {path} may have been created")
        return created

    def delete(self, *paths: str) -> None:
        self.events.extend(("delete", path) for path in paths)
        super().delete(*paths)


class World:
    """Ports, and a record of everything that was done through them, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.clock = FakeClock()
        self.background = FakeBackground()
        self.storage = FakeStorage(self.events)
        self.places: dict[str, MemoryStorage] = {}
        self.ports = Ports(self.clock, self.background, self._send, self.storage, self._open)

    def _open(self, place: str) -> MemoryStorage:
        return self.places.setdefault(place, MemoryStorage())

    def _send(self, to: int, message: Any) -> None:
        self.events.append(("send", to, message))

    def sent(self, kind: type, to: int | None = None) -> list[Any]:
        """The messages of a type that were sent so far, oldest first."""
        return [
            event[2]
            for event in self.events
            if event[0] == "send" and isinstance(event[2], kind) and (to is None or event[1] == to)
        ]

    def told(self, kind: type) -> list[Any]:
        """The messages of a type that the coordinator was sent."""
        return self.sent(kind, COORDINATOR)

    def forget(self) -> None:
        self.events.clear()


@dataclass
class WorkerRun:
    """One worker under test; the other workers and the coordinator are the test."""

    world: World
    worker: Worker
    steps: int = field(default=0)

    def receive(self, message: Any) -> None:
        self.worker.receive(message)

    def settle(self, *, background: bool = True) -> None:
        """Step until nothing is left to do."""
        for _ in range(10_000):
            while background and self.world.background.queue:
                self.world.background.run_one()
            if not self.worker.step() and not (background and self.world.background.queue):
                self.worker.check_invariants()
                return
        raise AssertionError("the worker never comes to rest")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def new_world() -> Callable[[], World]:
    return World


@pytest.fixture
def start_worker() -> Callable[..., WorkerRun]:
    """Starts a worker: ``start_worker(world, job, number=0, attempt=1, **more)``."""

    def start(world: World, job: Any, number: int = 0, attempt: int = 1, **more: Any) -> WorkerRun:
        deployment = Deployment(job, Attempt(attempt), "lineage", **more)
        run = WorkerRun(world, Worker(deployment, number, world.ports))
        world.background.drain()
        return run

    return start


@pytest.fixture
def numbers() -> Callable[..., pa.RecordBatch]:
    """``numbers(1, 2, 3)``: a batch of one column ``n``."""

    def batch(*values: int) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, pa.int64())], names=["n"])

    return batch
