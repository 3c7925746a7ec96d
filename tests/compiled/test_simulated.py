"""Whole jobs with compiled functions under crashes and rescales, and jobs that change between
starts whether a function is compiled, and where its state is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing import run
from mainstay.testing.inspect import committed_state
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.compiled.accounts import GIVEN, ROWS, TAKEN, Account, OwnAccount, expected

MODES = ("exactly_once", "unaligned")


def written(env: Any, function: Any) -> None:
    rows = env.source(ms.connectors.Rows(TAKEN, ROWS, splits=3), uid="in")
    keyed = rows.key_by("account")
    keyed.process(function, GIVEN, uid="accounts").sink(ms.connectors.Memory(), uid="out")


def planned(function: Any, parallelism: int, mode: str) -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=32, mode=mode)
    written(env, function)
    graph, _ = replaced(env.graph(), {})
    return plan_of(graph)


def check_states(states: Any) -> None:
    counts, means = expected()
    assert states("n") == counts
    assert states("mean") == {key: total / n for key, (total, n) in means.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", MODES)
def test_every_row_counts_once_through_crashes_and_rescales(seed: int, mode: str) -> None:
    def build(env: Any) -> None:
        written(env, Account())

    result = run(build, parallelism=2, seed=seed, crashes=2, rescales=(3, 1), mode=mode)
    check_states(lambda name: _kept(result.storage, result.job, name))
    numbers = Counter((account, n) for account, n, _ in result.output("out"))
    counts, _ = expected()
    assert numbers == Counter((a, n) for a, count in counts.items() for n in range(1, count + 1))


def _kept(storage: Any, job: JobSpec, name: str) -> Any:
    return committed_state(storage, job, "accounts", name)


def start(job: JobSpec, storage: MemoryStorage, settings: SimulationSettings) -> Simulation:
    options = JobOptions(
        "accounts",
        "accounts",
        SnapshotOptions(every_s=0.01, tolerable_failures=1000),
        RestartOptions(max_failures=10, backoff_s=0.01),
        RestoreOptions("latest-or-new"),
        tuning=Tuning(batch_rows=16, first_slice_rows=8, max_slice_rows=8, max_chain=2),
    )
    simulation = Simulation(job, options, settings, storage)
    simulation.run()
    assert simulation.coordinator.error is None
    return simulation


@pytest.mark.parametrize("seed", range(6))
def test_a_job_may_change_whether_it_is_compiled_and_where_its_state_is(seed: int) -> None:
    play(seed)


@pytest.mark.soak
def test_many_jobs_may_change_whether_they_are_compiled() -> None:
    for seed in range(6, 400):
        play(seed)


def play(seed: int) -> None:
    """Start a job again and again, each time with what a seed draws."""
    random, storage = Random(f"accounts-{seed}"), MemoryStorage()
    starts = random.randint(2, 4)
    for number in range(starts + 1):
        is_last = number == starts
        function = random.choice((Account, OwnAccount))()
        backend = random.choice((HeapSettings(), MemoryRocksSettings(), MemoryRocksSettings(1)))
        job = planned(function, random.randint(1, 3), random.choice(MODES))
        settings = SimulationSettings(
            seed=random.randrange(1 << 30),
            crashes=random.randint(0, 2),
            crash_within_steps=80,
            stop_after_epochs=None if is_last else random.randint(1, 3),
        )
        simulation = start(replace(job, backend=backend), storage, settings)
        if simulation.coordinator.status is Status.FINISHED:
            break
    assert simulation.coordinator.status is Status.FINISHED, seed
    check_states(lambda name: _kept(storage, job, name))
