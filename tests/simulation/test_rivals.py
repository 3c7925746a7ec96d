"""No election at all: several drivers believe to lead, at once, and each input counts once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.options import JobOptions, RestartOptions
from mainstay.runtime.status import Status
from mainstay.snapshot import commitlog
from mainstay.snapshot.guarded import GuardedStorage
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.simulation.playing import Run, play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import (
    Chunk,
    check_fixed,
    check_many,
    check_seeds,
    fixed,
    in_chunks,
    is_noticed,
)
from tests.simulation.shares import soaked

SEEDS = 30
CHUNK = 10
READS_OF_A_SUCCESSOR = 14
BEGINS_FROM_A_SAVEPOINT_AFTER_ANOTHER = 700_003


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_every_input_counts_exactly_once_though_all_drivers_believe_to_lead(chunk: Chunk) -> None:
    check_fixed(Scenario.of_rivals, chunk)


def test_the_seeds_have_attempts_of_several_leaders_at_the_same_time() -> None:
    fenced = 0
    for seed in range(8):
        for leader in play(Scenario.of_rivals(seed)).simulation.coordinators:
            fenced += "another driver has taken over" in str(leader.error)
    assert fenced > 8


def test_an_attempt_reads_nothing_of_the_one_that_has_replaced_it() -> None:
    """With state in versions it did: a list came from its successor, and a count from memory."""
    check_seeds(Scenario.of_rivals, READS_OF_A_SUCCESSOR, 1)


def test_a_savepoint_is_gone_on_from_by_the_first_driver_though_the_second_began_with_it() -> None:
    """The simulated driver had not joined, and was refused because there was a history."""
    seed = BEGINS_FROM_A_SAVEPOINT_AFTER_ANOTHER
    check_many(Scenario.of_rivals, range(seed, seed + 1))


@pytest.mark.parametrize("seeds", soaked("rivals", SEEDS))
def test_many_seeds_of_rivals(seeds: range) -> None:
    check_many(Scenario.of_rivals, seeds)


# ---------------------------------------------------------------- the end of a job


def run_after_the_end(seed: int) -> tuple[Simulation, Simulation]:
    """A job that is stopped or cancelled, and the driver that stood by meanwhile."""
    scenario = replace(Scenario.of(seed), rivalry=None)
    sources = {"in": play_sources(scenario)}
    run = Run(replace(scenario, graph="chain"), sources, {})
    settings = SimulationSettings(seed=seed, max_steps=60_000)
    ends = {"stop_at_step": 60} if seed % 2 else {"stop_after_epochs": 1}
    first = run.stage(2, replace(settings, **ends)).simulation  # type: ignore[arg-type]
    graph, _ = run.graph(2)
    restart = RestartOptions(max_failures=200, backoff_s=0.005, max_backoff_s=0.05)
    options = JobOptions("job", "job", scenario.snapshots, restart)
    second = Simulation(run.plan(graph), options, settings, run.storage, joined=0)
    second.run()
    return first, second


def play_sources(scenario: Scenario) -> Any:
    from tests.simulation.ends import CoarseRows
    from tests.simulation.ledgers import ROW
    from tests.simulation.playing import rows_for

    return CoarseRows(ROW, rows_for(scenario, "in", 1000), splits=scenario.splits)


def ends_alike(seed: int) -> bool:
    first, second = run_after_the_end(seed)
    return second.coordinator.status is first.coordinator.status and not second.attempts


@pytest.mark.parametrize("seed", in_chunks(10, 1, suite=4))
def test_a_driver_that_stood_by_takes_over_the_end_of_a_job(seed: int) -> None:
    first, second = run_after_the_end(seed)
    assert first.coordinator.status in (Status.STOPPED, Status.CANCELLED, Status.FINISHED)
    assert second.coordinator.status is first.coordinator.status
    assert not second.attempts
    assert not second.witness.slots


# ---------------------------------------------------------------- planted bugs


@contextmanager
def a_claim_in_doubt() -> Iterator[None]:
    with patch.object(Claims, "hold", lambda self, is_held: None):
        yield


@contextmanager
def what_is_won_in_doubt_is_told_at_once() -> Iterator[None]:
    right = Claims.hold

    def hold(self: Claims, is_held: bool) -> None:
        right(self, is_held)
        if is_held:
            self._won_in_doubt = _AtOnce()  # type: ignore[assignment]

    with patch.object(Claims, "hold", hold):
        yield


class _AtOnce(list[Any]):
    def append(self, tell: Any) -> None:
        tell()


@contextmanager
def a_deposed_leader_goes_on_and_commits() -> Iterator[None]:
    def depose(self: Coordinator) -> None:
        self.is_replaced = not self.status.is_final

    with patch.object(Coordinator, "depose", depose):
        yield


@contextmanager
def files_swept_by_a_leader_that_was_deposed() -> Iterator[None]:
    with patch.object(GuardedStorage, "delete", lambda self, path: self._inner.delete(path)):
        yield


@contextmanager
def the_second_slot_is_won_again_after_it_was_deleted() -> Iterator[None]:
    with patch.object(commitlog, "_is_old", lambda storage, index: False):
        yield


@contextmanager
def a_stopped_job_is_run_on_by_its_successor() -> Iterator[None]:
    with patch.object(Succession, "end", lambda self, history: None):
        yield


BUGS = {
    a_claim_in_doubt: Scenario.of_rivals,
    what_is_won_in_doubt_is_told_at_once: Scenario.of_rivals,
    a_deposed_leader_goes_on_and_commits: Scenario.of_terms,
    files_swept_by_a_leader_that_was_deposed: Scenario.of_terms,
    the_second_slot_is_won_again_after_it_was_deleted: Scenario.of_rivals,
    a_stopped_job_is_run_on_by_its_successor: None,
}
"""Where each is looked for."""


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    scenario_of = BUGS[bug]
    with bug():
        if scenario_of is None:
            assert not all(ends_alike(seed) for seed in range(10))
        else:
            assert is_noticed(scenario_of, 200)
