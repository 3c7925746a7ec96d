"""The job whose aggregates are frozen, as they were kept before they took conditions.

``python -m tests.golden.aggregates DIRECTORY`` writes a snapshot of the version that runs it. Never
change what this job declares; add another job instead.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

ROW = "customer string, name string, amount long, price decimal(10,2)"
ROWS = [(f"c{n % 7}", None if n % 5 == 0 else f"n{n}", n, None) for n in range(100)]


def simulate(
    storage: Storage, parallelism: int, *, restore: str, stop_after: int | None
) -> tuple[Any, Simulation]:
    """Run the job, to its end or for some epochs."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    rows = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="orders")
    totals = rows.key_by("customer").aggregate(
        total=ms.sum("amount"),
        n=ms.count(),
        named=ms.count("name"),
        low=ms.min("amount"),
        high=ms.max("name"),
        average=ms.mean("amount"),
        price=ms.sum("price"),
        one=ms.first("customer"),
        other=ms.last("customer"),
        names=ms.collect("name"),
        uid="totals",
    )
    totals.sink(ms.connectors.Memory(), uid="out")
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    snapshots, tuning = SnapshotOptions(every_s=0.01), Tuning(first_slice_rows=3, max_slice_rows=3)
    restoring = RestoreOptions(restore)
    options = JobOptions("golden", "golden", snapshots, restore=restoring, tuning=tuning)
    settings = SimulationSettings(seed=3, stop_after_epochs=stop_after)
    simulation = Simulation(job, options, settings, storage)
    simulation.run()
    return job, simulation


def check_states(storage: Storage, job: JobSpec) -> None:
    """What is kept once the job has read all its rows, wherever it began."""
    kept = committed_state(storage, job, "totals", "aggregates")
    assert set(kept) == {row[0] for row in ROWS}
    for customer, row in kept.items():
        amounts = [row[2] for row in ROWS if row[0] == customer]
        names = [row[1] for row in ROWS if row[0] == customer and row[1] is not None]
        found = row._asdict() if hasattr(row, "_asdict") else row.asDict()
        assert sorted(found.pop("names")) == sorted(names)
        assert found == {
            "total": sum(amounts),
            "n": len(amounts),
            "named": len(names),
            "low": min(amounts),
            "high": max(names),
            "average_sum": float(sum(amounts)),
            "average_count": len(amounts),
            "price": None,
            "one": customer,
            "other": customer,
        }


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True)
    simulate(open_storage(sys.argv[1]), 2, restore="new", stop_after=2)
