"""The simulation runs the external backend for real: bugs that are planted in it are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import external_cases as cases
from tests.simulation.external_mutations import MUTATIONS
from tests.simulation.savepoint_cases import (
    a_savepoint_reads_the_tables_while_the_next_epoch_is_to_be_applied,
)
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import check_seed, in_chunks, is_noticed

WITHIN = 500
CHUNK = 2
BUILT: dict[str, Callable[[], None]] = {
    "the fence is checked before the write and not inside": (
        cases.a_worker_that_was_replaced_writes
    ),
    "the row of the ledger is written in another transaction": (
        cases.the_answer_is_lost_and_the_worker_dies
    ),
    "a read that began before a segment was applied does not see it": (
        cases.a_segment_is_applied_while_rows_are_read
    ),
    "the ledger is forgotten of an epoch that is half in a base": (
        cases.a_base_is_made_when_an_epoch_is_half_in_the_database
    ),
    "the database moves on while a savepoint reads it": (
        a_savepoint_reads_the_tables_while_the_next_epoch_is_to_be_applied
    ),
}
"""Bugs that need a moment which few seeds come by: it is built by hand."""


@pytest.mark.parametrize("first", in_chunks(60, CHUNK, suite=CHUNK))
def test_every_input_counts_exactly_once_with_state_in_an_external_database(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(Scenario.in_an_external_database, seed)


@pytest.mark.parametrize("case", BUILT.values())
def test_a_moment_that_few_seeds_come_by_is_survived(case: Callable[[], None]) -> None:
    case()


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_the_external_backend_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        if name in BUILT:
            with pytest.raises(AssertionError):
                BUILT[name]()
            return
        assert is_noticed(Scenario.in_an_external_database, WITHIN), f"no seed notices that {name}"
