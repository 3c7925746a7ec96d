"""Bugs that a seed once found, by what went wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.checks import check
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario


@pytest.mark.parametrize("graph", ["chain", "diamond", "broadcast_side"])
def test_a_sender_on_the_same_worker_may_refill_a_channel_while_it_is_read(graph: str) -> None:
    """Granting credit put the next batch in at once, and the channel was listed as ready twice."""
    scenario = Scenario.of(1)
    tuning = replace(scenario.tuning, window_bytes=1, batch_rows=1)
    settings = replace(scenario.settings, check_invariants=True)
    base = replace(scenario, graph=graph, parallelism=1, rescaled_to=None)
    check(play(replace(base, tuning=tuning, settings=settings)))


@pytest.mark.parametrize(
    "seed", [9, 29, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (44, 68, 212, 220))]
)
def test_a_new_leader_goes_on_when_a_dead_one_takes_the_slot_it_wanted(seed: int) -> None:
    """The last request of a dead leader won the slot that its successor was about to begin with."""
    scenario = Scenario.of(seed)
    struck = replace(scenario.settings, crashes=20, crash_within_steps=400)
    settings = replace(struck, stall_odds=0.3, stall_steps=60)
    check(play(replace(scenario, settings=settings, rescaled_to=None)))
