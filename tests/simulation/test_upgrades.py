"""A newer program goes on from an older one's snapshot, through crashes at any moment.

Values are migrated once, whether the newer program dies before or after its first epoch.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import pytest

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.simulation.seeds import in_chunks

VALUES = [(n % 11, n % 5) for n in range(700)]


class Before(ms.KeyedProcess):
    total = ms.ReducingState("int", operator.add)
    items = ms.ListState("int")
    seen = ms.MapState("int", "int")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        self.items.add(row.n)
        self.seen.put(row.n, (self.seen.get(row.n) or 0) + 1)


class After(ms.KeyedProcess):
    """A total is a text of as many letters, elements are structs, entries expire late."""

    total = ms.ValueState("string", migrate=lambda old: "x" * old)
    items = ms.ListState("struct<n:long>", migrate=lambda old: (old,))
    seen = ms.MapState("long", "long", ttl="1 hour")

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.update((self.total.get() or "") + "x" * row.n)
        self.items.add((row.n,))
        self.seen.put(row.n, (self.seen.get(row.n) or 0) + 1)


def planned(function: Any, key: str, parallelism: int) -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=32)
    rows = env.source(ms.connectors.Rows("k int, n int", VALUES, splits=3), uid="in")
    keyed = rows.key_by(
        lambda row: row.k if key == "long" else f"key-{row.k}",
        key,
        uid="key",
        migrate_key=lambda old: f"key-{old}",
    )
    keyed.process(function, "k int", uid="sums").sink(ms.connectors.Memory(), uid="out")
    graph, _ = replaced(env.graph(), {})
    return plan_of(graph)


def simulate(
    job: JobSpec, storage: MemoryStorage, restore: str, settings: SimulationSettings
) -> Simulation:
    options = JobOptions(
        "upgraded",
        "upgraded",
        SnapshotOptions(every_s=0.01, tolerable_failures=1000),
        RestartOptions(max_failures=10, backoff_s=0.01),
        RestoreOptions(restore),
        tuning=Tuning(batch_rows=32, first_slice_rows=8, max_slice_rows=8, max_chain=2),
    )
    simulation = Simulation(job, options, settings, storage)
    simulation.run()
    assert simulation.coordinator.error is None
    return simulation


@pytest.mark.parametrize("seed", in_chunks(16, 1, suite=3))
@pytest.mark.parametrize("key", ["long", "string"])
def test_every_value_is_migrated_exactly_once(seed: int, key: str) -> None:
    storage = MemoryStorage()
    first = SimulationSettings(seed=seed, stop_after_epochs=1 + seed % 3)
    older = planned(Before(), "long", 1 + seed % 3)
    assert simulate(older, storage, "new", first).coordinator.status is not Status.FINISHED
    crashes = SimulationSettings(seed=seed, crashes=3, crash_within_steps=100, storage_faults=2)
    newer = planned(After(), key, 1 + (seed + 1) % 3)
    simulation = simulate(newer, storage, "latest", crashes)
    assert simulation.coordinator.status is Status.FINISHED
    assert len(simulation.attempts) > 1

    def named(k: int) -> Any:
        return k if key == "long" else f"key-{k}"

    totals = committed_state(storage, newer, "sums", "total")
    expected = {named(k): sum(n for key, n in VALUES if key == k) for k in range(11)}
    assert {k: len(text) for k, text in totals.items()} == expected
    items = committed_state(storage, newer, "sums", "items")
    for k in range(11):
        counted = Counter(n for key, n in VALUES if key == k)
        assert Counter(item.n for item in items[named(k)]) == counted
        assert committed_state(storage, newer, "sums", "seen")[named(k)] == counted
