"""A full run, a run with crashes and a run restored at another parallelism give one result."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.checks import check
from tests.simulation.graphs import GRAPHS
from tests.simulation.playing import Outcome, play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import in_chunks


def result_of(outcome: Outcome) -> dict[str, Any]:
    """What does not depend on how the inputs interleaved."""
    ids = outcome.state("ledger", "ids")
    return {
        "output": Counter(outcome.output),
        "ids": {key: sorted(seen) for key, seen in ids.items()},
        "count": outcome.state("ledger", "count"),
        "splits": outcome.state("ledger", "splits"),
    }


@pytest.mark.parametrize("graph", sorted(GRAPHS))
def test_crashes_and_rescaling_change_nothing(graph: str) -> None:
    base = replace(
        Scenario.of(17), graph=graph, mode="exactly_once", parallelism=3, rescaled_to=None, rows=90
    )
    plain = play(base, crash_free=True)
    struck = replace(base.settings, crashes=4, crash_within_steps=400, storage_faults=3)
    crashed = play(replace(base, settings=struck))
    rescaled = play(replace(base, rescaled_to=5, stop_after=2))
    assert len(crashed.simulation.attempts) > 1
    for outcome in (plain, crashed, rescaled):
        check(outcome)
    assert result_of(plain) == result_of(crashed) == result_of(rescaled)


@pytest.mark.parametrize("seed", in_chunks(5, 1, suite=2))
def test_one_channel_gives_what_a_plain_loop_gives_row_by_row(seed: int) -> None:
    base = replace(
        Scenario.of(seed),
        graph="chain",
        mode="exactly_once",
        parallelism=1,
        rescaled_to=None,
        splits=1,
    )
    # With more subtasks there would be more channels.
    outcome = play(replace(base, settings=replace(base.settings, rescales=())))
    assert outcome.output == outcome.given["in"]


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = play(Scenario.of(42)), play(Scenario.of(42))
    assert first.simulation.trace == second.simulation.trace
    assert first.output == second.output
