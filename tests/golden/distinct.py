"""The job whose sets of distinct values are frozen in a snapshot, each in one row of its key.

``python -m tests.golden.distinct FILE.zip`` writes it, as of the version that runs it. Never change
what this job declares; add another job instead.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from shutil import make_archive
from tempfile import TemporaryDirectory

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

T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = "customer string, item long, name string, at timestamp"
ROWS = [
    (f"c{n % 3}", n * 7 % 130, f"n{n * 11 % 110}", T0 + timedelta(seconds=n)) for n in range(600)
]


def build(env: ms.Environment) -> None:
    rows = env.source(
        ms.connectors.Rows(ROW, ROWS, splits=3),
        uid="orders",
        watermark=ms.Watermark("at", delay="1h"),
    )
    keyed = rows.key_by("customer")
    aggregates = {
        "n": ms.count(),
        "items": ms.count_distinct("item"),
        "names": ms.count_distinct("name", where=ms.col("item") > 9),
    }
    streams = {
        "ever": keyed.aggregate(**aggregates, uid="ever"),
        "days": keyed.window(ms.tumbling("1d")).aggregate(**aggregates, uid="days"),
        "visits": keyed.window(ms.session("1h")).aggregate(**aggregates, uid="visits"),
    }
    for name, stream in streams.items():
        stream.sink(ms.connectors.Memory(), uid=f"{name}-out")


def simulate(
    storage: Storage, parallelism: int, *, restore: str, stop_after: int | None
) -> tuple[JobSpec, Simulation, dict[str, ms.connectors.Memory]]:
    """Run the job, to its end or for some epochs."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    build(env)
    graph, sinks = replaced(env.graph(), {})
    job = plan_of(graph)
    snapshots, tuning = SnapshotOptions(every_s=0.01), Tuning(first_slice_rows=3, max_slice_rows=3)
    restoring = RestoreOptions(restore)
    options = JobOptions("golden", "golden", snapshots, restore=restoring, tuning=tuning)
    settings = SimulationSettings(seed=3, stop_after_epochs=stop_after)
    simulation = Simulation(job, options, settings, storage)
    simulation.run()
    return job, simulation, sinks


def expected() -> dict[str, tuple[int, set[int], set[str]]]:
    """How many rows each customer has, and which items and names count."""
    found: dict[str, tuple[int, set[int], set[str]]] = {}
    for customer in {row[0] for row in ROWS}:
        mine = [row for row in ROWS if row[0] == customer]
        names = {name for _, item, name, _ in mine if item > 9}
        found[customer] = (len(mine), {row[1] for row in mine}, names)
    return found


def check_state(storage: Storage, job: JobSpec) -> None:
    """What the running aggregate keeps once all rows were read, wherever the job began."""
    kept = committed_state(storage, job, "ever", "aggregates")
    found = {key: (row.n, set(row["items"]), set(row.names)) for key, row in kept.items()}
    assert found == expected()
    for row in kept.values():
        assert len(row["items"]) == len(set(row["items"]))
        assert len(row.names) == len(set(row.names))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    with TemporaryDirectory() as directory:
        simulate(open_storage(directory), 2, restore="new", stop_after=3)
        make_archive(str(target.with_suffix("")), "zip", directory)
