"""Runs a job for a while and says what happened between two of its epochs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.api.environment import Environment
from mainstay.api.options import Snapshots
from mainstay.bench.progress import manifest_of, records_at
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.options import JobOptions
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.object_storage import open_storage

SPARK = "spark"
PROCESSES = "processes"
"""Where workers run: as tasks of a local Spark session, or as plain processes without a JVM."""

SOURCE = "orders"
"""The uid of the source that is counted."""

WARM_UP_S = 2.0
PATIENCE_S = 300.0
GLANCE_S = 0.02
EVERY_MANIFEST = 1_000_000

Build = Callable[[Environment], None]


@dataclass(frozen=True, slots=True)
class Window:
    """Everything between two epochs of a job that ran without a failure."""

    first: EpochRecord
    last: EpochRecord
    records: int
    epochs: list[EpochRecord]

    @property
    def seconds(self) -> float:
        return self.last.triggered_at - self.first.triggered_at

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


def environment(
    directory: str, *, parallelism: int = 2, every_s: float = 1.0, **settings: Any
) -> Environment:
    """An environment whose manifests are all kept: they are what is counted."""
    snapshots = Snapshots(directory, every=every_s, retain=EVERY_MANIFEST)
    return Environment(parallelism=parallelism, snapshots=snapshots, **settings)


def start(env: Environment, name: str, place: str) -> RemoteJob:
    """Start a job in a place. On Spark this is what any user's ``start`` does."""
    if place == SPARK:
        job = env.start(name)
        assert isinstance(job, RemoteJob)
        return job
    if place != PROCESSES or env.snapshots is None:
        raise ValueError(f"place={place!r} is unknown. It is {SPARK!r} or {PROCESSES!r}.")
    options = JobOptions(name, name, env.snapshots.parsed(), env.restart.parsed(), env.restore)
    return RemoteJob(name, env.plan(), options, str(env.snapshots.dir), ProcessLauncher())


def await_true(job: RemoteJob, is_true: Callable[[], bool], what: str) -> None:
    """Wait for something that a running job will bring about; raises what made it fail."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        job.wait(GLANCE_S, progress=False)
        if job.is_over:
            raise RuntimeError(f"job {job.name!r} is {job.status}, and {what} has not happened")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} has not happened within {PATIENCE_S:g} s")


def complete_epochs(job: RemoteJob) -> list[EpochRecord]:
    return [record for record in job.snapshots() if record.status == EpochStatus.COMPLETE]


def await_epoch(job: RemoteJob, triggered_after: float) -> EpochRecord:
    """The first epoch that was begun after a point in time, once it is complete."""

    def found() -> list[EpochRecord]:
        return [each for each in complete_epochs(job) if each.triggered_at >= triggered_after]

    await_true(job, lambda: bool(found()), "an epoch")
    return found()[0]


def observe(
    job: RemoteJob,
    directory: str,
    seconds: float,
    *,
    warm_up_s: float = WARM_UP_S,
    mark: Callable[[], None] | None = None,
) -> Window:
    """What a job does between two epochs that lie some seconds apart, once it is warm.

    ``mark`` is called at both ends.
    """
    await_true(job, lambda: job.status == "running", "the start of the workers")
    first = await_epoch(job, time.time() + warm_up_s)
    if mark is not None:
        mark()
    last = await_epoch(job, first.triggered_at + seconds)
    if mark is not None:
        mark()
    if len(job.attempts()) > 1:
        raise RuntimeError(f"the job was restarted while it was measured: {job.attempts()}")
    storage = open_storage(directory)
    records = [records_at(manifest_of(storage, each.epoch), SOURCE) for each in (first, last)]
    within = [each for each in complete_epochs(job) if first.epoch < each.epoch <= last.epoch]
    return Window(first, last, records[1] - records[0], within)
