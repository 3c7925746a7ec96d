"""The simulation looks at a database with versions: what it shows is always a whole epoch."""

from __future__ import annotations

import pytest

from tests.simulation.scenarios import Scenario, check, play
from tests.simulation.version_mutations import MUTATIONS
from tests.simulation.version_witness import witnessed

WITHIN = 200
NOTICED_BY: dict[str, int] = {
    "epochs are folded that may be asked for": 1,
    "an attempt is admitted before it has cleaned up": 28,
}
"""A seed that is known to notice: it is tried first, so that the others need not be."""


def looks_right(seed: int) -> int:
    """Play a seed while somebody looks on; how often what was seen could be compared."""
    with witnessed() as witness:
        check(play(Scenario.in_versions(seed)))
    return witness.compared


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_others_see_whole_epochs_and_every_input_counts_exactly_once(first: int) -> None:
    compared = 0
    for seed in range(first, first + 10):
        try:
            compared += looks_right(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert compared > 40


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_the_versions_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        for seed in [NOTICED_BY.get(name, 0), *range(WITHIN)]:
            try:
                looks_right(seed)
            except Exception:
                return
    raise AssertionError(f"no seed notices that {name}")
