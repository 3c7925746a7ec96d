"""The simulation can fail: every bug that is planted is found within five hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import is_noticed

WITHIN = 500


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(Scenario.of, WITHIN), f"no seed notices that {name}"
