"""Starting a job on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mainstay.drive.preflight import has_work
from mainstay.drive.remote_job import RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.errors import SparkSetupError
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
from mainstay.spark.launch.cluster import Cluster, cluster_of
from mainstay.spark.launch.deferred import DeferredLauncher
from mainstay.spark.launch.job import IngestingJob
from mainstay.spark.launch.launcher import SparkLauncher
from mainstay.spark.launch.masters import is_local_master
from mainstay.spark.launch.reservations import Reservation, choosing, reserve
from mainstay.spark.launch.session import is_spark_running, own_session
from mainstay.spark.launch.submitted import submitted_master


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
    coordinator_host: str | None = None,
) -> RemoteJob:
    """Start a job on a given session, on that of its DataFrames, or on one of its own.

    That one is a local one, unless ``master`` says where, or spark-submit was told, or the address
    of a Spark Connect server is given for a session. ``coordinator_host`` is where executors reach
    this process, if Spark does not know it.

    Before a local one is started, what can be known without it is looked at. One of several drivers
    has its session ready when it is elected, whatever there is to do by then.
    """
    check_available_now(spec, ingests)
    least = None if scaling is None else scaling.least
    options = JobOptions(name, name, snapshots, restart, restore, tuning or Tuning(), least)
    location = shared(directory)
    if isinstance(session, str):
        session, master = None, master or session
    own = session or _session_of(ingests)
    if own is None:
        master = master or submitted_master()
    # The address of the coordinator is known without a session only where all is on this machine.
    is_here = coordinator_host is None and (master is None or is_local_master(master))
    may_wait = own is None and is_here and election is None and not is_spark_running()
    if may_wait and not has_work(name, spec, location, restore):
        deferred = DeferredLauncher(lambda: _own_launcher(name, spec.workers, master))
        return RemoteJob(name, spec, options, location, deferred, scaling=scaling)
    cluster = cluster_of(own or own_session(spec.workers, master), coordinator_host)
    _check_least(cluster, least)
    queries = sum(ingest.is_streaming for ingest in ingests)
    with choosing:
        fewest = spec.workers if scaling is None else scaling.least_workers(spec)
        cluster.check(_needed(cluster, fewest, election), more_slots=queries)
        tasks = _tasks_of_a_query(cluster, spec.workers, queries)
        reservation = reserve(cluster.application, spec.workers)
    try:
        launcher = SparkLauncher(cluster, name, reservation, queries)
        if scaling is not None:
            scaling = replace(scaling, check=_rescaling(cluster, reservation))
        if not ingests:
            return RemoteJob(
                name, spec, options, location, launcher, scaling=scaling, election=election
            )
        return IngestingJob(
            name, spec, options, location, launcher, ingests, cluster, tasks, scaling
        )
    except BaseException:
        reservation.release()
        raise


def _check_least(cluster: Cluster, least: int | None) -> None:
    if least is not None and cluster.slots() is None:
        raise SparkSetupError(
            f"min_parallelism={least} needs a cluster that tells how many slots it has, and a "
            "Spark Connect server does not. Leave min_parallelism out, and the job waits for "
            "slots; or give the job a classic session, such as that of spark-submit."
        )


def _needed(cluster: Cluster, workers: int, election: Election | None) -> int:
    """How many slots must be free at the start.

    Several drivers may share one Connect server, whose slots the one that leads has.
    """
    return 1 if election is not None and cluster.slots() is None else workers


def _own_launcher(name: str, workers: int, master: str | None) -> SparkLauncher:
    cluster = cluster_of(own_session(workers, master))
    with choosing:
        cluster.check(workers)
        return SparkLauncher(cluster, name, reserve(cluster.application, workers))


def _rescaling(cluster: Cluster, reservation: Reservation) -> Callable[[JobSpec, int], None]:
    def check(plan: JobSpec, now: int) -> None:
        with choosing:
            cluster.check_rescale(plan.workers, now)
            reservation.change(plan.workers)

    return check


def _session_of(ingests: Sequence[Ingest]) -> Any:
    return ingests[0].df.sparkSession if ingests else None


def _tasks_of_a_query(cluster: Cluster, workers: int, queries: int) -> int:
    """How many tasks a query may run at a time, for all to fit beside the workers."""
    slots = cluster.slots()
    free = workers if slots is None else slots.free
    return max(1, (free - workers) // max(1, queries))
