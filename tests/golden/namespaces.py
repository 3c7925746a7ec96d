"""The job whose states by key and namespace are frozen, in a snapshot and in a savepoint.

``python -m tests.golden.namespaces DIRECTORY`` writes both, as of the version that runs it. Never
change what this job declares; add another job instead.
"""

from __future__ import annotations

import operator
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.namespaces import enter, namespaced

ROW = "customer string, region int, amount long"
ROWS = [(f"c{number % 7}", number % 3, number) for number in range(100)]
PLACE = "the savepoint"


class ByBucket(ms.KeyedProcess):
    """A state of each way of storing one, by namespaces of several types."""

    total = namespaced(ms.ReducingState("long", operator.add), "long")
    amounts = namespaced(ms.ListState("long"), "string")
    regions = namespaced(ms.MapState("int", "long"), "struct<start:int,end:int>")
    last = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        enter(self.total, row.amount // 20 - 2).add(row.amount)
        enter(self.amounts, f"{row.amount % 2}").add(row.amount)
        regions = enter(self.regions, (row.region, row.region + 1))
        regions.put(row.region, (regions.get(row.region) or 0) + 1)
        self.last.update(row.amount)
        yield ctx.key, row.amount


def simulate(
    storage: Storage,
    parallelism: int,
    settings: SimulationSettings,
    *,
    restore: str = "new",
    origin: Storage | None = None,
) -> tuple[Any, Simulation]:
    """Run the job, fresh, from its last epoch, or from a savepoint."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    rows = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="orders")
    by_bucket = rows.key_by("customer").process(ByBucket(), "customer string, n long", uid="all")
    by_bucket.sink(ms.connectors.Memory(), uid="out")
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    restoring = RestoreOptions(restore, origin=None if origin is None else PLACE)
    snapshots, tuning = SnapshotOptions(every_s=0.01), Tuning(first_slice_rows=3, max_slice_rows=3)
    options = JobOptions("golden", "golden", snapshots, restore=restoring, tuning=tuning)
    places = {} if origin is None else {PLACE: origin}
    simulation = Simulation(job, options, replace(settings, seed=3), storage, places=places)
    simulation.run()
    return job, simulation


def check_states(storage: Storage, job: JobSpec) -> None:
    """What the states must be once the job has read all its rows, wherever it began."""
    read = {
        name: committed_state(storage, job, "all", name) for name in ("total", "amounts", "regions")
    }
    totals: Counter[Any] = Counter()
    for customer, _, amount in ROWS:
        totals[customer, amount // 20 - 2] += amount
    assert read["total"] == dict(totals)
    amounts: dict[Any, list[int]] = {(c, f"{a % 2}"): [] for c, _, a in ROWS}
    for customer, _, amount in ROWS:
        amounts[customer, f"{amount % 2}"].append(amount)
    assert {pair: sorted(kept) for pair, kept in read["amounts"].items()} == amounts
    regions = Counter((c, r) for c, r, _ in ROWS)
    assert {(c, tuple(n)): kept for (c, n), kept in read["regions"].items()} == {
        (c, (r, r + 1)): {r: count} for (c, r), count in regions.items()
    }


def write(directory: Path) -> None:
    snapshot = directory / "namespaces-snapshot-v6"
    snapshot.mkdir(parents=True)
    settings = SimulationSettings(stop_after_epochs=2)
    simulate(open_storage(str(snapshot)), 2, settings)
    stop = SimulationSettings(stop_at_step=16, stop_with_savepoint=True)
    _, simulation = simulate(MemoryStorage(), 2, stop)
    assert simulation.requests.last_stop is not None
    written = simulation.places[simulation.requests.last_stop]
    for path in written.list(""):
        file = directory / "namespaces-savepoint-v3" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(written.read(path))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
