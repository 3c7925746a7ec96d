"""Panes die, are merged and restored; bugs planted in what segments say of them are found."""

from __future__ import annotations

import pytest

from tests.simulation.join_cases import CASES, with_many_epochs
from tests.simulation.noticing import is_noticed
from tests.simulation.pane_mutations import MUTATIONS

SEEDS = 2
WITHIN = 20


def check(seed: int) -> None:
    """A join whose panes die again and again gives what DuckDB gives, and leaves nothing behind."""
    result, found, wanted = with_many_epochs(seed)
    assert found == wanted
    assert not any(result.state("join", state) for state in CASES["interval-full"].states)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_join_that_is_cut_and_merged_every_few_rows_forgets_what_it_has_dropped(
    seed: int,
) -> None:
    check(seed)


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_panes_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(check, WITHIN), f"no seed notices that {name}"
