"""A coordinator with a world in the hands of the test, and workers that are the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import (
    Acknowledge,
    Attempt,
    Committed,
    Decline,
    Ended,
    Epoch,
    Ready,
    Release,
    Released,
    Trigger,
)
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import segment_path
from mainstay.snapshot.manifest import FileRef, OperatorUnits, SegmentRef, SubtaskState

WORKERS = 2


class Total(ms.KeyedProcess):
    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


def plan(parallelism: int = WORKERS, mode: str = "exactly_once") -> JobSpec:
    env = ms.Environment(parallelism=parallelism, mode=mode)
    keyed = env.source(Rows("k string, n long", [("a", 1), ("b", 2)], splits=2), uid="rows")
    totals = keyed.key_by("k").process(Total(), "k string", uid="totals")
    totals.sink(Memory(), uid="out")
    return env.plan()


@dataclass
class FakeCluster:
    events: list[tuple[Any, ...]]
    deployments: list[Deployment]
    places: int | None = None
    """For how many workers there is room; None where that cannot be told."""

    @property
    def counts_room(self) -> bool:
        return self.places is not None

    def room(self) -> int:
        assert self.places is not None
        return self.places

    def launch(self, deployment: Deployment) -> None:
        self.deployments.append(deployment)
        self.events.append(("launch", deployment.attempt))

    def end(self, attempt: Attempt) -> None:
        self.events.append(("stop", attempt))


class Leader:
    """One coordinator and the words to drive it."""

    def __init__(self, world: Any, name: str, job: JobSpec, **options: Any) -> None:
        restore = RestoreOptions(
            start=options.pop("restore", "new"),
            origin=options.pop("origin", None),
            fall_back=options.pop("fall_back", False),
            allow_dropped=frozenset(options.pop("allow_dropped", ())),
        )
        restart = RestartOptions(
            max_failures=options.pop("max_failures", 10),
            backoff_s=options.pop("backoff_s", 1.0),
        )
        least = options.pop("min_parallelism", None)
        snapshots = SnapshotOptions(**{"every_s": 10.0, "timeout_s": 60.0, **options})
        self.world = world
        self.job = job
        self.cluster = FakeCluster(world.events, [], None if least is None else WORKERS)
        self._tokens = self._names(name)
        self.coordinator = Coordinator(
            job,
            JobOptions("words", "lineage", snapshots, restart, restore, min_parallelism=least),
            world.ports,
            self.cluster,
            lambda: next(self._tokens),
            Succession(plan_at=plan),
        )

    @staticmethod
    def _names(name: str) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield f"{name}-{number}"

    # ------------------------------------------------------------ driving

    @property
    def status(self) -> str:
        self.answer_releases()
        self.coordinator.check_invariants()
        return self.coordinator.status.value

    def answer_releases(self) -> None:
        """Workers that are released in good order say so at once."""
        for _, worker, message in self.events("send"):
            if isinstance(message, Release) and message.in_good_order:
                self.coordinator.receive(Released(message.attempt, worker))

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.coordinator.attempts[-1].attempt)

    def start(self) -> Leader:
        """As far as the launch of the workers, or to the refusal."""
        self.coordinator.start()
        self.world.background.drain()
        return self

    def ready(self, workers: int = WORKERS) -> Leader:
        for worker in range(workers):
            self.coordinator.receive(Ready(self.attempt, worker))
        self.world.background.drain()
        return self

    def run(self) -> Leader:
        return self.start().ready()

    def pass_time(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self.coordinator.tick()

    def trigger(self, workers: int = WORKERS) -> Epoch:
        """Let time pass until an epoch is triggered; its number."""
        before = len(self.world.sent(Trigger))
        due = self.coordinator.deadline()
        assert due is not None
        self.pass_time(max(0.0, due - self.world.clock.now))
        triggers = self.world.sent(Trigger)[before:]
        assert len(triggers) == workers, "every worker is told"
        assert len({message.epoch for message in triggers}) == 1
        epoch: Epoch = triggers[0].epoch
        return epoch

    def acknowledge(
        self,
        epoch: int,
        *,
        but: tuple[str, int] | None = None,
        only: tuple[str, int] | None = None,
        attempt: int | None = None,
        files: tuple[str, ...] | None = None,
        units: Mapping[str, OperatorUnits] | None = None,
    ) -> None:
        """Acknowledge for every subtask (or all but one, or only one); nothing else is run.

        ``units`` is the operator state of every subtask 0.
        """
        for task, subtask in self.job.subtasks():
            place = (task.id, subtask)
            if place == but or (only is not None and place != only):
                continue
            own = Attempt(attempt) if attempt is not None else self.attempt
            states = {
                operator.uid: SubtaskState(subtask, self.chain(epoch, subtask, own, files))
                if operator.key is not None
                else SubtaskState(subtask, (), (units or {}) if subtask == 0 else {})
                for operator in task.operators
            }
            self.coordinator.receive(Acknowledge(own, Epoch(epoch), *place, states))

    def chain(
        self, epoch: int, subtask: int, attempt: int, files: tuple[str, ...] | None
    ) -> tuple[SegmentRef, ...]:
        names = (f"e{epoch}",) if files is None else files
        refs = []
        for name in names:
            path = segment_path("totals", subtask, attempt, name)
            self.world.storage._files.setdefault(path, b"state")
            refs.append(
                SegmentRef(name, FileRef(path, 5, "crc32:0"), 64 * subtask, 64 * subtask + 63, 1)
            )
        return tuple(refs)

    def decline(self, epoch: int, reason: str = "no space", attempt: int | None = None) -> None:
        own = Attempt(attempt) if attempt is not None else self.attempt
        self.coordinator.receive(Decline(own, Epoch(epoch), "totals", 0, reason))

    def complete(self, *, files: tuple[str, ...] | None = None, workers: int = WORKERS) -> Epoch:
        """Take an epoch from its trigger to the log."""
        epoch = self.trigger(workers)
        self.acknowledge(epoch, files=files)
        self.world.background.drain()
        return epoch

    def lose_worker(self, worker: int = 1) -> None:
        self.coordinator.workers_lost(self.attempt, "it was killed", worker)

    def restart(self) -> None:
        """Let the wait pass; as far as the next launch."""
        due = self.coordinator.deadline()
        assert due is not None
        self.pass_time(due - self.world.clock.now)
        self.world.background.drain()

    def end_all(self, but: tuple[str, int] | None = None) -> None:
        for task, subtask in self.job.subtasks():
            if (task.id, subtask) != but:
                self.coordinator.receive(Ended(self.attempt, task.id, subtask))

    def confirm(self, epoch: int, *subtasks: int) -> None:
        for subtask in subtasks or range(WORKERS):
            self.coordinator.receive(Committed(self.attempt, Epoch(epoch), "totals", subtask))

    # ------------------------------------------------------------ looking

    def epochs(self) -> list[int]:
        """The epochs on the lineage, as the log says."""
        return [record.epoch for record in read_history(self.world.storage).lineage_epochs()]

    def outcomes(self) -> list[tuple[int, str]]:
        return [(record.epoch, record.status) for record in self.coordinator.records]

    def events(self, *kinds: str) -> list[tuple[Any, ...]]:
        return [event for event in self.world.events if event[0] in kinds]


@pytest.fixture
def job() -> JobSpec:
    return plan()


@pytest.fixture
def lead(world: Any, job: JobSpec) -> Callable[..., Leader]:
    """A leader on the one storage: ``lead("A", restore="latest", max_concurrent=2, ...)``."""

    def make(name: str = "A", **options: Any) -> Leader:
        return Leader(world, name, job, **options)

    return make
