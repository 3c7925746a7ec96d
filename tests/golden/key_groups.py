"""The job whose operators say their numbers of key-groups, with broadcast state beside, is frozen.

``python -m tests.golden.key_groups DIRECTORY`` writes a snapshot and a savepoint of it, as of the
version that runs it. Never change what this job declares; add another job instead.
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

ROW = "customer string, amount long"
ROWS = [(f"c{number % 9}", number) for number in range(120)]
RATES = [(f"r{number}", number) for number in range(5)]
PLACE = "the savepoint"


class Total(ms.KeyedProcess):
    total = ms.ReducingState("long", operator.add)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.amount)
        yield ctx.key, row.amount


class Priced(ms.CoKeyedProcess):
    """Counts by key, beside rates that every subtask knows."""

    n = ms.ReducingState("long", operator.add)
    rates = ms.BroadcastMapState("string", "long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.n.add(1)
        yield ctx.key, len(self.rates)

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rates.put(row.name, row.rate)


def simulate(
    storage: Storage,
    parallelism: int,
    settings: SimulationSettings,
    *,
    restore: str = "new",
    origin: Storage | None = None,
    totals: int = 7,
    seed: int = 3,
) -> tuple[JobSpec, Simulation]:
    """Run the job, fresh, from its last epoch, or from a savepoint."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    orders = env.source(ms.connectors.Rows(ROW, ROWS, splits=3), uid="orders").key_by("customer")
    rates = env.source(ms.connectors.Rows("name string, rate long", RATES), uid="rates")
    orders.process(Total(), "customer string, n long", uid="totals", max_parallelism=totals).sink(
        ms.connectors.Memory(), uid="totals-out"
    )
    orders.connect(rates.broadcast()).process(
        Priced(), "customer string, rates long", uid="priced", max_parallelism=40
    ).sink(ms.connectors.Memory(), uid="priced-out")
    orders.aggregate(n=ms.count(), uid="counts").sink(ms.connectors.Memory(), uid="counts-out")
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    restoring = RestoreOptions(restore, origin=None if origin is None else PLACE)
    snapshots, tuning = SnapshotOptions(every_s=0.01), Tuning(first_slice_rows=3, max_slice_rows=3)
    options = JobOptions("golden", "golden", snapshots, restore=restoring, tuning=tuning)
    places = {} if origin is None else {PLACE: origin}
    simulation = Simulation(job, options, replace(settings, seed=seed), storage, places=places)
    simulation.run()
    return job, simulation


def check_states(storage: Storage, job: JobSpec) -> None:
    """What the states must be once the job has read all its rows, wherever it began."""
    totals: Counter[str] = Counter()
    for customer, amount in ROWS:
        totals[customer] += amount
    assert committed_state(storage, job, "totals", "total") == dict(totals)
    counts = Counter(customer for customer, _ in ROWS)
    assert committed_state(storage, job, "priced", "n") == dict(counts)
    kept = committed_state(storage, job, "counts", "aggregates")
    assert {customer: row.n for customer, row in kept.items()} == dict(counts)
    copies = committed_state(storage, job, "priced", "rates")
    assert copies, "no subtask holds the rates"
    assert all(dict(copy) == dict(RATES) for copy in copies)


def write(directory: Path) -> None:
    snapshot = directory / "key-groups-snapshot-v7"
    snapshot.mkdir(parents=True)
    simulate(open_storage(str(snapshot)), 2, SimulationSettings(stop_after_epochs=2))
    stop = SimulationSettings(stop_at_step=40, stop_with_savepoint=True)
    _, simulation = simulate(MemoryStorage(), 2, stop)
    assert simulation.requests.last_stop is not None
    written = simulation.places[simulation.requests.last_stop]
    for path in written.list(""):
        file = directory / "key-groups-savepoint-v4" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(written.read(path))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
