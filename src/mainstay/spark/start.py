"""Starting a job on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.runtime.options import (
    JobOptions,
    RestartOptions,
    RestoreOptions,
    SnapshotOptions,
)
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.spark.dataframes import Ingest, shared
from mainstay.spark.job import IngestingJob
from mainstay.spark.launcher import SparkLauncher
from mainstay.spark.session import check_more_slots, check_session, local_session, slots


def start_on_spark(
    name: str,
    spec: JobSpec,
    *,
    session: Any,
    directory: str,
    snapshots: SnapshotOptions,
    restart: RestartOptions,
    restore: RestoreOptions,
    tuning: Tuning | None = None,
    scaling: Scaling | None = None,
    ingests: Sequence[Ingest] = (),
) -> RemoteJob:
    """Start a job on a given session, on that of its DataFrames, or on a local one of its own."""
    own = session or _session_of(ingests) or local_session(spec.workers)
    queries = sum(ingest.is_streaming for ingest in ingests)
    check_session(own, spec.workers, more_slots=queries)
    launcher = SparkLauncher(own, name)
    if scaling is not None:
        scaling = replace(scaling, check=lambda plan, now: check_more_slots(own, plan.workers, now))
    options = JobOptions(name, name, snapshots, restart, restore, tuning or Tuning())
    location = shared(directory)
    if not ingests:
        return RemoteJob(name, spec, options, location, launcher, scaling=scaling)
    tasks = _tasks_of_a_query(own, spec.workers, queries)
    return IngestingJob(name, spec, options, location, launcher, ingests, tasks, scaling)


def _session_of(ingests: Sequence[Ingest]) -> Any:
    return ingests[0].df.sparkSession if ingests else None


def _tasks_of_a_query(session: Any, workers: int, queries: int) -> int:
    """How many tasks a query may run at a time, for all to fit beside the workers."""
    _, free = slots(session)
    return max(1, (free - workers) // max(1, queries))
