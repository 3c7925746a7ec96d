"""The simulation runs the external backend for real: bugs that are planted in it are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation import external_cases as cases
from tests.simulation.external_mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, check_seed, is_noticed

WITHIN = 500
NOTICED_BY: dict[str, int] = {
    "a base has the parts of lists that came after it": 1,
    "a restore applies what the ledger has already": 1,
    "a restore forgets the segments that the ledger lacks": 2,
    "a segment is applied before its epoch is committed": 0,
    "changes that the database does not have are evicted": 0,
    "segments are applied out of the order of the chain": 1,
    "the database moves on while a savepoint reads it": 3,
    "the ledger does not say of which key groups": 26,
    "the ledger is forgotten too early": 11,
}
"""A seed that is known to notice: it is tried first, so that the others need not be."""
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
}
"""Bugs that need a moment which few seeds come by: it is built by hand."""


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_input_counts_exactly_once_with_state_in_an_external_database(first: int) -> None:
    for seed in range(first, first + 20):
        check_seed(Scenario.in_an_external_database, seed)


@pytest.mark.parametrize("case", cases.CASES)
def test_a_moment_that_few_seeds_come_by_is_survived(case: Callable[[], None]) -> None:
    case()


RARE = ("the database moves on while a savepoint reads it",)
"""Bugs that take many seeds to notice: they are looked for in the soak."""


def _param(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.soak) if name in RARE else name


@pytest.mark.mutation
@pytest.mark.parametrize("name", [_param(name) for name in sorted(MUTATIONS)])
def test_a_bug_planted_in_the_external_backend_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        if name in BUILT:
            with pytest.raises(AssertionError):
                BUILT[name]()
            return
        seeds = [NOTICED_BY.get(name, 0), *range(WITHIN)]
        assert is_noticed(Scenario.in_an_external_database, seeds), f"no seed notices that {name}"
