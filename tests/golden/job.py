"""The job whose snapshots are frozen: every kind of state, both scopes, several key types.

``python -m tests.golden.job DIRECTORY`` writes a snapshot directory of the version that runs it.
Never change what this job declares; add another job instead.
"""

from __future__ import annotations

import operator
import sys
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

ROW = "customer string, region int, amount long"
ROWS = [(f"c{number % 7}", number % 3, number) for number in range(100)]


class Average:
    """Sum and count."""

    def create(self) -> Any:
        return (0, 0)

    def add(self, accumulator: Any, value: Any) -> Any:
        return (accumulator[0] + value, accumulator[1] + 1)

    def result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]


class Everything(ms.KeyedProcess):
    """One state of every kind."""

    last = ms.ValueState("struct<region:int,amounts:array<long>>")
    amounts = ms.ListState("long")
    by_region = ms.MapState("int", "decimal(12,2)")
    total = ms.ReducingState("long", operator.add)
    average = ms.AggregatingState(Average(), accumulator="struct<sum:long,n:long>")
    anything = ms.ValueState()

    def process(self, row: Any, ctx: Any) -> Any:
        self.last.update((row.region, [row.amount, row.amount + 1]))
        self.amounts.add(row.amount)
        self.by_region.put(row.region, row.amount)
        self.total.add(row.amount)
        self.average.add(row.amount)
        self.anything.update({"seen": {row.amount}})
        yield ctx.key, self.total.get()


class Seen(ms.Process):
    """Operator state."""

    seen = ms.OperatorListState("long", redistribute="split")

    def process(self, row: Any, ctx: Any) -> Any:
        if row.amount % 10 == 0:
            self.seen.add(row.amount)
        return tuple(row)


class Pairs(ms.KeyedProcess):
    """A key of two columns."""

    count = ms.ReducingState("int", operator.add)

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.add(1)


def build(env: ms.Environment) -> None:
    rows = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="orders")
    seen = rows.process(Seen(), ROW, uid="seen")
    seen.key_by("customer").process(Everything(), "customer string, total long", uid="all").sink(
        ms.connectors.Memory(), uid="out"
    )
    seen.key_by("customer", "region").process(Pairs(), "n int", uid="pairs").sink(
        ms.connectors.Memory(), uid="none"
    )


def simulate(
    directory: str, parallelism: int, *, restore: str, stop_after: int | None
) -> tuple[Any, Simulation]:
    """Run the job in a directory, to its end or for some epochs."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    build(env)
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    options = JobOptions(
        "golden", "golden", SnapshotOptions(every_s=0.01), restore=RestoreOptions(restore)
    )
    settings = SimulationSettings(seed=3, stop_after_epochs=stop_after)
    simulation = Simulation(job, options, settings, open_storage(directory))
    simulation.run()
    return job, simulation


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True)
    simulate(sys.argv[1], 2, restore="new", stop_after=2)
