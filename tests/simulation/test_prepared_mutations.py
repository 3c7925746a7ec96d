"""The simulation runs two-phase commit for real: bugs that are planted in it are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation import prepared_cases as cases
from tests.simulation.prepared_mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, external_of
from tests.simulation.seeds import check_seed, in_chunks, is_noticed

WITHIN = 300
BUILT: dict[str, Callable[[], None]] = {
    "an epoch is acknowledged before the database has voted": (
        cases.the_database_is_away_when_an_epoch_is_cut
    ),
    "votes are left in doubt after a restore": cases.an_attempt_dies_with_votes_in_doubt,
    "a restore commits the votes of epochs that were never complete": (
        cases.an_attempt_dies_with_votes_in_doubt
    ),
    "the vote of an epoch that was given up stays in doubt": (
        cases.the_answer_to_a_vote_is_lost_and_its_epoch_is_given_up
    ),
    "a vote that is gone is taken for committed": cases.somebody_rolls_a_vote_back_by_hand,
    "a vote of a dead attempt counts by the number of its epoch": (
        cases.the_number_of_an_epoch_was_used_again
    ),
    "a later epoch is committed while a savepoint reads an earlier one": (
        cases.a_savepoint_reads_an_epoch_for_long
    ),
}
"""Bugs that need a moment which few seeds come by: it is built by hand."""


def by_votes(seed: int) -> Scenario:
    """A job with state in a database that votes on epochs."""
    scenario = Scenario.in_an_external_database(seed)
    return replace(scenario, backends=(replace(external_of(seed), protocol="prepared"),))


@pytest.mark.parametrize("first", in_chunks(20, 5, suite=5))
def test_every_input_counts_exactly_once_by_two_phase_commit(first: int) -> None:
    for seed in range(first, first + 5):
        check_seed(by_votes, seed)


@pytest.mark.parametrize("case", cases.CASES)
def test_a_moment_of_two_phase_commit_is_survived(case: Callable[[], None]) -> None:
    case()


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_two_phase_commit_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        if name in BUILT:
            with pytest.raises(AssertionError):
                BUILT[name]()
            return
        assert is_noticed(by_votes, WITHIN), f"no seed notices that {name}"
