"""The simulation can fail: every bug that is planted is found within five hundred seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, is_noticed

WITHIN = 500
NOTICED_BY = {
    "a global sink committed when the manifest is written": 20,
    "a marker overtakes rows": 22,
    "a restored job builds on the files of the savepoint": 3,
    "an old attempts acknowledgement accepted": 227,
    "compaction loses the newest segment": 3,
    "restart does not wait for the claim under way": 4,
    "the files of a savepoint are not pinned": 139,
    "the late part of a cut forgotten": 7,
    "the savepoint is forgotten while there is no epoch": 22,
    "what was put off done out of order": 7,
}
"""A seed that is known to notice: it is tried first, so that the others need not be."""


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        seeds = [NOTICED_BY.get(name, 0), *range(WITHIN)]
        assert is_noticed(Scenario.of, seeds), f"no seed notices that {name}"
