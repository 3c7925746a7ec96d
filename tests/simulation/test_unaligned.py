"""Unaligned snapshots under the simulation: rows that were overtaken are part of the cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.worker import assembly
from mainstay.runtime.worker.channel_state import TaskChannels
from tests.simulation.overtaking_bugs import what_had_no_credit_is_not_kept
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, check_seeds, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 40
CHUNK = 10
TABLES_GONE = 3


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=10))
def test_every_input_counts_exactly_once_whatever_is_overtaken(chunk: Chunk) -> None:
    check_fixed(Scenario.unaligned, chunk)


def test_no_attempt_drops_the_tables_that_it_reads() -> None:
    """A savepoint had no rows for the first subtask, which stayed with the tables of before while
    the others moved on, and swept theirs in the next attempt."""
    check_seeds(Scenario.unaligned, TABLES_GONE, 1)


@pytest.mark.parametrize("seeds", soaked("unaligned", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.unaligned, seeds)


# ---------------------------------------------------------------- planted bugs


@contextmanager
def what_is_queued_is_not_logged() -> Iterator[None]:
    def open_only(self: Any, cut: Any, epoch: Any, number: int) -> None:
        cut.open.add(number)

    with patch.object(TaskChannels, "_log_queued", open_only):
        yield


@contextmanager
def what_arrives_is_not_logged() -> Iterator[None]:
    right = TaskChannels._on_arrival

    def forget(self: Any, number: int, element: Any) -> None:
        before = {epoch: list(cut.incoming) for epoch, cut in self._cuts.items()}
        right(self, number, element)
        for epoch, cut in self._cuts.items():
            cut.incoming[:] = before[epoch]

    with patch.object(TaskChannels, "_on_arrival", forget):
        yield


@contextmanager
def in_flight_rows_are_not_restored() -> Iterator[None]:
    with patch.object(assembly, "own_rows", lambda *arguments: []):
        yield


BUGS = [
    what_is_queued_is_not_logged,
    what_arrives_is_not_logged,
    what_had_no_credit_is_not_kept,
    in_flight_rows_are_not_restored,
]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(Scenario.unaligned, 500)


def test_the_savepoint_that_a_job_halts_with_holds_no_in_flight_rows() -> None:
    """They would be worked off while the job waits for its sinks, and again after its savepoint."""
    check_seeds(Scenario.unaligned, 174, 1)
