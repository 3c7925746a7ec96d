"""The simulation looks at a database with versions: what it shows is always a whole epoch."""

from __future__ import annotations

import pytest

from tests.simulation.checks import check
from tests.simulation.noticing import is_noticed
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import in_chunks
from tests.simulation.version_mutations import MUTATIONS
from tests.simulation.version_witness import witnessed

WITHIN = 200


def looks_right(seed: int) -> int:
    """Play a seed while somebody looks on; how often what was seen could be compared."""
    with witnessed() as witness:
        check(play(Scenario.in_versions(seed)))
    return witness.compared


@pytest.mark.parametrize("first", in_chunks(30, 10, suite=10))
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
        assert is_noticed(looks_right, WITHIN), f"no seed notices that {name}"
