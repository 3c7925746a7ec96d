"""Bugs that a seed once found, by what went wrong."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import Scenario, check, play


@pytest.mark.parametrize("seed", [11, 24, 27, 39, 59])
def test_a_sender_on_the_same_worker_may_refill_a_channel_while_it_is_read(seed: int) -> None:
    """Granting credit put the next batch in at once, and the channel was listed as ready twice."""
    check(play(Scenario.of(seed)))


def test_a_new_leader_goes_on_when_a_dead_one_takes_the_slot_it_wanted() -> None:
    """The last request of a dead leader won the slot that its successor was about to begin with."""
    check(play(Scenario.of(5)))
