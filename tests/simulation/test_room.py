"""Hosts are lost and come back, and the job is run with as many workers as there is room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.coordinator import fitting
from mainstay.runtime.coordinator.fitting import Fitting
from mainstay.runtime.deployment import Deployment
from mainstay.testing.simulation import Simulation
from tests.simulation.planting import planting
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 8
CHUNK = 4
MUTATIONS, mutation = planting()


@pytest.fixture(autouse=True)
def the_job_does_not_wait_long() -> Iterator[None]:
    """A simulated job runs for a second or two."""
    with (
        patch.object(fitting, "LOOK_S", 0.01),
        patch.object(fitting, "WAIT_S", 0.03),
        patch.object(fitting, "CALM_S", 0.03),
    ):
        yield


@contextmanager
def launches() -> Iterator[list[int]]:
    """With how many workers attempts are launched, one after the other."""
    found: list[int] = []
    right = Simulation.launch

    def launch(self: Any, deployment: Deployment, leader: Any) -> None:
        found.append(deployment.job.workers)
        right(self, deployment, leader)

    with patch.object(Simulation, "launch", launch):
        yield found


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=SEEDS))
def test_every_input_counts_exactly_once_with_however_many_workers(chunk: Chunk) -> None:
    check_fixed(Scenario.of_room, chunk)


@pytest.mark.parametrize("seeds", soaked("room", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.of_room, seeds)


def test_the_seeds_have_attempts_with_fewer_workers_and_jobs_that_have_grown() -> None:
    reduced = grown = 0
    for seed in range(10):
        scenario = Scenario.of_room(seed)
        # A savepoint would be restored as well, at another parallelism.
        scenario = replace(scenario, settings=replace(scenario.settings, savepoints=0))
        with launches() as workers:
            play(scenario)
        asked = scenario.parallelism
        assert set(workers) <= set(range(scenario.least, asked + 1))
        reduced += min(workers) < asked
        grown += any(later > earlier for earlier, later in pairwise(workers))
    assert reduced >= 4
    assert grown >= 2


@mutation
def a_job_asks_for_more_workers_than_there_is_room_for() -> Iterator[None]:
    with patch.object(fitting._Plans, "best", lambda self, asked, room: asked):
        yield


@mutation
def a_job_does_not_wait_for_its_answer_about_room() -> Iterator[None]:
    def at_once(self: Fitting, go: Any) -> None:
        self._give(self.asked, go)

    with patch.object(Fitting, "fit", at_once):
        yield


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(Scenario.of_room, 200), f"no seed notices that {name}"
