"""A savepoint of the frozen job, and the job that is restored from one.

``python -m tests.golden.savepoint DIRECTORY`` writes a savepoint of the version that runs it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import Tuning
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import Storage
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.golden.job import build

PLACE = "the savepoint"


def simulate(
    storage: Storage, parallelism: int, settings: SimulationSettings, origin: Storage | None = None
) -> tuple[Any, Simulation]:
    """Run the job, fresh or from a savepoint."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    build(env)
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    restore = RestoreOptions("new", origin=None if origin is None else PLACE)
    snapshots, tuning = SnapshotOptions(every_s=0.01), Tuning(first_slice_rows=3, max_slice_rows=3)
    options = JobOptions("golden", "golden", snapshots, restore=restore, tuning=tuning)
    places = {} if origin is None else {PLACE: origin}
    simulation = Simulation(job, options, replace(settings, seed=3), storage, places=places)
    simulation.run()
    return job, simulation


def write(directory: Path) -> None:
    settings = SimulationSettings(stop_at_step=30, stop_with_savepoint=True)
    _, simulation = simulate(MemoryStorage(), 2, settings)
    assert simulation.requests.last_stop is not None
    written = simulation.places[simulation.requests.last_stop]
    for path in written.list(""):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(written.read(path))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
