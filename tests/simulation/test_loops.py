"""Loops under the simulation: the rows inside them are neither lost nor doubled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.operators.feedback import Feedback
from mainstay.runtime.operators.loop import LoopHead
from tests.simulation.graphs import LOOPS
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 40
CHUNK = 10


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_rows_in_loops_count_exactly_once_whatever_a_seed_does(chunk: Chunk) -> None:
    check_fixed(Scenario.looped, chunk)


@pytest.mark.parametrize("seeds", soaked("loops", SEEDS))
def test_rows_in_loops_count_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.looped, seeds)


def test_the_fixed_seeds_cover_what_they_should() -> None:
    scenarios = [Scenario.looped(seed) for seed in range(SEEDS)]
    assert {s.graph for s in scenarios} == set(LOOPS)
    assert {s.mode for s in scenarios} == {"exactly_once", "at_least_once"}
    assert sum(s.rescaled_to is not None and s.settings.crashes > 0 for s in scenarios) > 8


# ---------------------------------------------------------------- planted bugs


@contextmanager
def log_opened_late() -> Iterator[None]:
    """What is queued when the marker passes is not in the log."""
    right = Feedback.open_log

    def without_the_queue(self: Any, epoch: Any) -> Any:
        late = right(self, epoch)
        self._logs[epoch].entries.clear()
        return late

    with patch.object(Feedback, "open_log", without_the_queue):
        yield


@contextmanager
def log_closed_early() -> Iterator[None]:
    """The log ends with the head's own snapshot, before the marker has come back."""
    right = LoopHead.before_marker

    def at_once(self: Any, epoch: Any) -> None:
        right(self, epoch)
        self.feedback.close_log(epoch)

    with patch.object(LoopHead, "before_marker", at_once):
        yield


@contextmanager
def log_not_replayed() -> Iterator[None]:
    with patch.object(Feedback, "_restore", lambda self, unit: None):
        yield


@contextmanager
def only_the_newest_log_gets_rows() -> Iterator[None]:
    """Of several epochs under way, only the last learns what comes back."""
    right = Feedback.arrived

    def to_the_newest(self: Any, batch: Any) -> None:
        logs = self._logs
        self._logs = dict(list(logs.items())[-1:])
        right(self, batch)
        self._logs = logs

    with patch.object(Feedback, "arrived", to_the_newest):
        yield


BUGS = [
    log_opened_late,
    log_closed_early,
    log_not_replayed,
    only_the_newest_log_gets_rows,
]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(Scenario.looped, 500)
