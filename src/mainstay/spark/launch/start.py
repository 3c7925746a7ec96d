"""Starting a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mainstay.drive.preflight import has_work
from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.ha.election import Election
from mainstay.runtime.options import (
    JobOptions,
    RestartOptions,
    RestoreOptions,
    SnapshotOptions,
)
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.storage import shared
from mainstay.spark.ingest.available_now import check_available_now
from mainstay.spark.ingest.dataframes import Ingest
from mainstay.spark.launch.deferred import DeferredLauncher
from mainstay.spark.launch.job import IngestingJob
from mainstay.spark.launch.launcher import SparkLauncher
from mainstay.spark.launch.reservations import Reservation, choosing, reserve
from mainstay.spark.launch.session import (
    check_more_slots,
    check_session,
    is_spark_running,
    own_session,
    slots,
)


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
    election: Election | None = None,
    ingests: Sequence[Ingest] = (),
    master: str | None = None,
) -> RemoteJob:
    """Start a job on a given session, on that of its DataFrames, or on one of its own.

    That one is a local one, unless ``master`` says where.

    Before that one is started, what can be known without it is looked at. One of several drivers
    has its session ready when it is elected, whatever there is to do by then.
    """
    check_available_now(spec, ingests)
    options = JobOptions(name, name, snapshots, restart, restore, tuning or Tuning())
    location = shared(directory)
    own = session or _session_of(ingests)
    may_wait = own is None and election is None and not is_spark_running()
    if may_wait and not has_work(name, spec, location, restore):
        deferred = DeferredLauncher(lambda: _own_launcher(name, spec.workers, master))
        return RemoteJob(name, spec, options, location, deferred, scaling=scaling)
    own = own or own_session(spec.workers, master)
    queries = sum(ingest.is_streaming for ingest in ingests)
    with choosing:
        check_session(own, spec.workers, more_slots=queries)
        tasks = _tasks_of_a_query(own, spec.workers, queries)
        reservation = reserve(own, spec.workers)
    try:
        launcher = SparkLauncher(own, name, reservation)
        if scaling is not None:
            scaling = replace(scaling, check=_rescaling(own, reservation))
        if not ingests:
            return RemoteJob(
                name, spec, options, location, launcher, scaling=scaling, election=election
            )
        return IngestingJob(name, spec, options, location, launcher, ingests, tasks, scaling)
    except BaseException:
        reservation.release()
        raise


def _own_launcher(name: str, workers: int, master: str | None) -> SparkLauncher:
    session = own_session(workers, master)
    with choosing:
        check_session(session, workers)
        return SparkLauncher(session, name, reserve(session, workers))


def _rescaling(session: Any, reservation: Reservation) -> Callable[[JobSpec, int], None]:
    def check(plan: JobSpec, now: int) -> None:
        with choosing:
            check_more_slots(session, plan.workers, now)
            reservation.change(plan.workers)

    return check


def _session_of(ingests: Sequence[Ingest]) -> Any:
    return ingests[0].df.sparkSession if ingests else None


def _tasks_of_a_query(session: Any, workers: int, queries: int) -> int:
    """How many tasks a query may run at a time, for all to fit beside the workers."""
    _, free = slots(session)
    return max(1, (free - workers) // max(1, queries))
