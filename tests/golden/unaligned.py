"""The job whose unaligned epoch is frozen: in-flight rows on an edge in turn, on one by key, and on
one to an operator without a uid.

``python -m tests.golden.unaligned DIRECTORY`` writes a snapshot directory of the version that runs
it. Never change what this job declares; add another job instead.
"""

from __future__ import annotations

import sys
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

ROW = "id long, key string"
ROWS = [(number, f"k{number % 5}") for number in range(200)]


class Seen(ms.KeyedProcess):
    """Every id under its key."""

    ids = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        yield tuple(row)


def planned(parallelism: int, mode: str, *, is_chained: bool = False) -> tuple[JobSpec, Any]:
    env = ms.Environment(parallelism=parallelism, max_parallelism=16, mode=mode)
    rows = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="in")
    rows = rows.filter(lambda row: True, uid="first")
    mapped = (rows if is_chained else rows.rebalance()).map(tuple, ROW, uid="map")
    seen = mapped.key_by("key").process(Seen(), ROW, uid="seen")
    passed = (seen if is_chained else seen.rebalance()).filter(lambda row: True)
    passed.sink(ms.connectors.Memory(), uid="out")
    graph, sinks = replaced(env.graph(), {}, ms.connectors.Memory)
    return plan_of(graph), sinks["out"]


def simulate(
    directory: str, job: JobSpec, *, restore: str, stop_after: int | None, seed: int = 1
) -> Simulation:
    options = JobOptions(
        name="golden",
        lineage="golden",
        snapshots=SnapshotOptions(every_s=0.02, retain=1),
        restore=RestoreOptions(restore),
        tuning=Tuning(window_bytes=100, least_window_bytes=100, batch_rows=4, max_slice_rows=6),
    )
    settings = SimulationSettings(seed=seed, stop_after_epochs=stop_after)
    simulation = Simulation(job, options, settings, open_storage(directory))
    simulation.run()
    return simulation


if __name__ == "__main__":
    simulate(sys.argv[1], planned(2, "unaligned")[0], restore="new", stop_after=2)
