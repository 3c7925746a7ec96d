"""The lead of a job passes from process to process, at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.coordinator import starting
from mainstay.snapshot.history import History
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 60
CHUNK = 10


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_every_input_counts_exactly_once_whoever_leads(chunk: Chunk) -> None:
    check_fixed(Scenario.of_terms, chunk)


@pytest.mark.parametrize("seeds", soaked("terms", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.of_terms, seeds)


def test_the_seeds_have_leaders_that_hear_of_their_successor_and_some_that_do_not() -> None:
    deposed, others = 0, 0
    for seed in range(12):
        for leader in play(Scenario.of_terms(seed)).simulation.coordinators[:-1]:
            deposed += "does not lead" in str(leader.error)
            others += leader.error is None or "another leader" in str(leader.error)
    assert deposed
    assert others


# ---------------------------------------------------------------- planted bugs


@contextmanager
def a_successor_goes_back_an_epoch() -> Iterator[None]:
    right = starting.choose_latest

    def older(history: History, damaged: Any) -> Any:
        newest = [each.epoch for each in history.lineage_epochs()[1:][-1:]]
        return right(history, {*damaged, *newest})

    with patch.object(starting, "choose_latest", older):
        yield


BUGS = [a_successor_goes_back_an_epoch]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(Scenario.of_terms, 200)
