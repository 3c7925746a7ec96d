"""The environment: where a job is described and started.

::

    env = Environment(parallelism=2, snapshots=Snapshots("./snapshots", every="1s"))
    env.source(orders, uid="orders").key_by("customer").process(...).sink(...)
    job = env.start("order-totals")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstay.api.graph import GraphBuilder
from mainstay.api.job import Job
from mainstay.api.options import Restart, Snapshots
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.plan.chained import chain
from mainstay.plan.check import check_graph
from mainstay.plan.explain import explain
from mainstay.plan.logical import LogicalGraph
from mainstay.plan.physical import expand
from mainstay.runtime.connector import Source
from mainstay.runtime.operators.rows import Make
from mainstay.runtime.operators.source import SPLITS, SourceOperator
from mainstay.runtime.options import RestoreOptions
from mainstay.runtime.spec import Forward, JobSpec


class Environment:
    """Holds the settings of a job and the graph that is being built."""

    def __init__(
        self,
        *,
        parallelism: int = 2,
        max_parallelism: int = 128,
        mode: str = "exactly_once",
        snapshots: Snapshots | None = None,
        restart: Restart | None = None,
        restore: str | int | None = None,
        fall_back: bool = False,
        allow_dropped: Sequence[str] = (),
    ) -> None:
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.mode = mode
        self.snapshots = snapshots
        self.restart = restart or Restart()
        self.restore = _restore_options(restore, allow_dropped, fall_back)
        self._builder = GraphBuilder(parallelism)

    def source(
        self, source: Source, *, uid: str | None = None, parallelism: int | None = None
    ) -> Stream:
        """The beginning of a stream."""
        if not isinstance(source, Source):
            raise GraphError(
                f"source(): {type(source).__name__} is no source. Use one of mainstay.connectors, "
                "or a subclass of mainstay.connectors.Source."
            )
        operator = self._builder.add(
            "source",
            Make(SourceOperator, (source,)),
            source.schema,
            uid=uid,
            parallelism=parallelism,
            states=(SPLITS,),
            source=source,
        )
        return Stream(self._builder, source.schema, ((operator.id, Forward()),))

    # ------------------------------------------------------------ plans

    def graph(self) -> LogicalGraph:
        """The logical graph as it stands, unchecked."""
        return self._builder.graph(self.max_parallelism, self.mode)

    def plan(self) -> JobSpec:
        """The physical graph; raises ``GraphError`` where the program is wrong."""
        graph = self.graph()
        check_graph(graph)
        return expand(chain(graph))

    def explain(self) -> str:
        """The logical, the chained and the physical graph as text."""
        graph = self.graph()
        chained = chain(graph)
        return explain(graph, chained, expand(chained))

    # ------------------------------------------------------------ running

    def start(self, name: str) -> Job:
        """Check the program and start it; returns at once."""
        spec = self.plan()
        if self.snapshots is None:
            raise GraphError(
                'start() needs a place for snapshots: Environment(snapshots=Snapshots("./dir")).'
            )
        from mainstay.drive.embedded import start_embedded

        return start_embedded(
            name,
            spec,
            directory=self.snapshots.dir,
            snapshots=self.snapshots.parsed(),
            restart=self.restart.parsed(),
            restore=self.restore,
        )


def _restore_options(restore: Any, allow_dropped: Sequence[str], fall_back: bool) -> RestoreOptions:
    start = "new" if restore is None else restore
    is_known = start in ("new", "latest", "latest-or-new")
    if not is_known and (isinstance(start, bool) or not isinstance(start, int)):
        raise GraphError(
            f'restore={restore!r} is unknown. Use "latest", "latest-or-new", the number of an '
            "epoch, or leave it out to start fresh."
        )
    if isinstance(allow_dropped, str):
        raise GraphError(f"allow_dropped={allow_dropped!r} must be a list of names.")
    return RestoreOptions(start, frozenset(allow_dropped), fall_back)
