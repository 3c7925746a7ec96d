"""The simulation can fail: every bug that is planted is found within five hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, check, play

WITHIN = 500


def first_seed_that_notices() -> int | None:
    for seed in range(WITHIN):
        try:
            check(play(Scenario.of(seed)))
        except Exception:
            return seed
    return None


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert first_seed_that_notices() is not None, f"no seed notices that {name}"
