"""Stops and rescales that are late: rows in line are stored with the last epoch, in any mode but
``at_least_once``, and the job goes on with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.status import Status
from mainstay.runtime.worker.channel_state import TaskChannels
from mainstay.runtime.worker.operator_chain import OperatorChain
from tests.simulation.changes import in_flight_units
from tests.simulation.checks import check
from tests.simulation.overtaking_bugs import what_had_no_credit_is_not_kept
from tests.simulation.playing import Run, play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import in_chunks, is_noticed

SEEDS = 30
CHUNK = 15


def late(seed: int) -> Scenario:
    """A job whose functions have turned slow: windows are wide, and slices take too long after a
    row. It is stopped, or rescaled first, and is started again at any parallelism."""
    random = Random(f"late-{seed}")
    scenario = Scenario.of(seed)
    settings = replace(
        scenario.settings,
        stop_at_step=random.randrange(100, 900),
        stop_with_savepoint=False,
        drain=False,
        savepoints=random.choice([0, 0, 1]),
        rescales=random.choice([(), (random.randint(1, 5),)]),
        storage_faults=0,
    )
    tuning = replace(
        scenario.tuning,
        window_bytes=random.choice([200, 1 << 20]),
        least_window_bytes=random.choice([200, 1 << 16]),
        slice_limit_s=0.0,
        first_piece_rows=1,
    )
    patience_s = random.choice([0.0, 0.005, 0.02])
    return replace(
        scenario,
        mode="exactly_once",
        rows=120,
        settings=settings,
        tuning=tuning,
        rescaled_to=random.choice([None, random.randint(1, 5)]),
        snapshots=replace(scenario.snapshots, halt_alignment_s=patience_s, every_s=0.05),
    )


def stored(scenario: Scenario) -> int:
    """Play a scenario, and tell how many pieces of in-flight rows it was stopped with."""
    found = 0
    right = Run.stage

    def stage(self: Run, *arguments: Any) -> Any:
        nonlocal found
        outcome = right(self, *arguments)
        if outcome.simulation.coordinator.status is Status.STOPPED:
            found += in_flight_units(self.storage)
        return outcome

    with patch.object(Run, "stage", stage):
        check(play(scenario))
    return found


@pytest.mark.parametrize("first", in_chunks(SEEDS, CHUNK, suite=15))
def test_a_job_that_is_stopped_late_goes_on_with_the_rows_that_were_in_line(first: int) -> None:
    scenarios = [late(seed) for seed in range(first, first + CHUNK)]
    held = [scenario for scenario in scenarios if stored(scenario)]
    assert any(scenario.rescaled_to is None for scenario in held)
    assert any(scenario.rescaled_to not in (None, scenario.parallelism) for scenario in held)


# ---------------------------------------------------------------- planted bugs


@contextmanager
def what_is_left_of_a_slice_is_not_stored() -> Iterator[None]:
    with patch.object(OperatorChain, "rest_of_head", lambda self: []):
        yield


@contextmanager
def acknowledged_while_the_marker_stands_in_line() -> Iterator[None]:
    right = TaskChannels.begin

    def at_once(self: Any, epoch: Any) -> Any:
        cut = right(self, epoch)
        self._cuts[epoch].lining_up = []
        return cut

    with patch.object(TaskChannels, "begin", at_once):
        yield


BUGS = [
    what_is_left_of_a_slice_is_not_stored,
    what_had_no_credit_is_not_kept,
    acknowledged_while_the_marker_stands_in_line,
]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(late, 500)
