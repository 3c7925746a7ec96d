"""Jobs with timers of compiled functions under crashes, rescales, stops and savepoints, on every
backend: each timer fires once. Between two starts a function may become compiled, or plain."""

from __future__ import annotations

import pytest

from tests.compiled.timed_account import Compiled, Plain
from tests.simulation.timer_cases import check, play, timers

SEEDS = 24
CHUNK = 6
STAGES = ((Compiled, Compiled), (Compiled, Plain), (Plain, Compiled))
"""What a job that is stopped has before and behind that."""


def check_seed(seed: int) -> set[str]:
    """What it has emitted."""
    scenario = timers(seed)
    is_stopped = scenario.settings.stop_at_step is not None
    stages = STAGES[seed % len(STAGES)] if is_stopped else (Compiled,)
    try:
        outcome, is_in_batches = play(scenario, stages)
        check(outcome, is_in_batches, is_declared=True)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return {what for what, _ in outcome.output}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_timer_of_a_compiled_function_fires_once(first: int) -> None:
    whats: set[str] = set()
    for seed in range(first, first + CHUNK):
        whats |= check_seed(seed)
    assert whats >= {"row", "fired", "replaced"}


@pytest.mark.soak
def test_every_timer_of_a_compiled_function_fires_once_over_many_seeds() -> None:
    for seed in range(SEEDS, 2000):
        check_seed(seed)
