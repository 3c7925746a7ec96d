"""The cluster behind a Spark session: all that running a job on it needs of Spark.

There are two kinds of session. A classic one has the driver's JVM in reach, a session of Spark
Connect a server that is asked over the network. Nothing else asks which it is.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from mainstay.spark.launch.slots import Slots
from mainstay.spark.launch.tasks import Main


class Cluster(Protocol):
    """Where tasks of a session run."""

    @property
    def session(self) -> Any: ...

    @property
    def application(self) -> str:
        """The id of the Spark application, whose slots all its sessions share."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, below the driver itself."""

    @property
    def host(self) -> str:
        """The address under which tasks reach this process."""

    @property
    def workers_python(self) -> str | None:
        """The command by which tasks start Python; None where it is the server's."""

    def setting(self, name: str, default: str | None = None) -> str | None:
        """A setting of Spark, as it holds for tasks of this session."""

    def is_stopped(self) -> bool:
        """Whether nothing can be run any more: the session was stopped, or its JVM has ended."""

    def slots(self) -> Slots | None:
        """How many tasks can run at once; None where it cannot be known."""

    def parallelism(self) -> int | None:
        """How many tasks Spark itself would cut data into; None where it cannot be known."""

    def check(self, workers: int, more_slots: int = 0) -> None:
        """Refuse what a job of so many workers cannot run on, with the remedy."""

    def check_rescale(self, workers: int, running: int) -> None:
        """Refuse a rescale that has too few slots, counting those that its workers give back."""

    def prepare(self) -> None:
        """See that tasks find this package and what it needs."""

    def run(self, main: Main, tasks: int, columns: str, tag: str, description: str) -> list[Any]:
        """The rows that ``main`` yields in so many tasks; each runs when there is a slot for it."""

    def run_barrier(self, main: Main, workers: int, tag: str, description: str) -> None:
        """Run ``main`` in so many tasks that start together; returns when all have ended."""

    def tagged(self, tag: str, description: str) -> AbstractContextManager[None]:
        """Inside, what this thread has Spark do can be cancelled by its tag."""

    def leave(self, host: str) -> list[str]:
        """Have Spark take its executors on a lost host for lost, and replace them elsewhere if it
        can; which these are. May block for as long as a part of Spark does not answer.
        """

    def cancel(self, tag: str) -> None:
        """Cancel what runs under a tag, from any thread."""


def cluster_of(session: Any, coordinator_host: str | None = None) -> Cluster:
    """The cluster behind a session of either kind.

    ``coordinator_host`` is where tasks reach this process, if it must be told.
    """
    # Each needs what the other's client may not have installed.
    if is_of_connect(session):
        from mainstay.spark.launch.connect_cluster import ConnectCluster

        return ConnectCluster(session, coordinator_host)
    from mainstay.spark.launch.classic_cluster import ClassicCluster

    return ClassicCluster(session, coordinator_host)


def is_of_connect(thing: Any) -> bool:
    """Whether a session, a DataFrame or the like is one of Spark Connect."""
    homes = (cls.__module__ for cls in type(thing).__mro__)
    return any(home.startswith("pyspark.sql.connect.") for home in homes)
