"""A job that has finished, gets more input and is started again, through crashes at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.coordinator.news import News
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.runtime.coordinator.starting import NothingNew, Start, Starting
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, check_seeds, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 40
BASE_WITHIN_AN_EPOCH = 79
CHUNK = 10


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_every_input_counts_exactly_once_over_all_starts(chunk: Chunk) -> None:
    check_fixed(Scenario.started_again, chunk)


def test_a_segment_after_a_base_of_its_epoch_is_applied_once() -> None:
    """The ledger forgot it with the segments that the base stood for."""
    check_seeds(Scenario.started_again, BASE_WITHIN_AN_EPOCH, 1)


@pytest.mark.parametrize("seeds", soaked("started again", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.started_again, seeds)


def test_the_fixed_seeds_cover_what_they_should() -> None:
    scenarios = [Scenario.started_again(seed) for seed in range(SEEDS)]
    assert {s.starts for s in scenarios} == {2, 3, 4}
    assert sum(s.settings.crashes > 0 for s in scenarios) > SEEDS / 2
    assert {s.has_loops for s in scenarios} == {True, False}
    stops = [s for s in scenarios if s.settings.stop_at_step is not None and s.splits == 1]
    assert {s.settings.drain for s in stops} == {True, False}


# ---------------------------------------------------------------- planted bugs


@contextmanager
def what_was_read_is_planned_again() -> Iterator[None]:
    right = SplitBook.__init__

    def forgetful(self: Any, parallelism: int, **settings: Any) -> None:
        is_again = settings.get("plan_again") and (settings["notes"] or {}).get("complete")
        right(self, parallelism, **{**settings, "notes": None if is_again else settings["notes"]})

    with patch.object(SplitBook, "__init__", forgetful):
        yield


@contextmanager
def new_input_is_forgotten_when_the_first_attempt_fails() -> Iterator[None]:
    def after_the_first(self: Any, attempt: int) -> bool:
        return bool(self.history.next_attempt > attempt)

    with patch.object(Start, "is_planned_since", after_the_first):
        yield


@contextmanager
def a_finished_job_is_not_asked_for_news() -> Iterator[None]:
    def ended(self: Any, loaded: Any) -> None:
        self._decided(NothingNew(News((), ("no new input since",))))

    with patch.object(Starting, "_look_for_news", ended):
        yield


BUGS = [
    what_was_read_is_planned_again,
    new_input_is_forgotten_when_the_first_attempt_fails,
    a_finished_job_is_not_asked_for_news,
]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(Scenario.started_again, 500)
