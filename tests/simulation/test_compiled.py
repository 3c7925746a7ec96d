"""The seeds of other lists with a compiled ledger: ``seeds`` and ``unaligned``.

A seed that fails is replayed with::

    python -m tests.simulation.replay SEED compiled
    python -m tests.simulation.replay SEED compiled_unaligned
"""

from __future__ import annotations

import pytest

from tests.simulation.compiled_mutations import MUTATIONS
from tests.simulation.scenarios import Scenario, compiled_of
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 40
CHUNK = 5
KINDS = {"seeds": Scenario.compiled, "unaligned": Scenario.compiled_unaligned}
WITHIN = 100


@pytest.mark.parametrize("chunk", fixed(SEEDS, CHUNK, suite=CHUNK))
@pytest.mark.parametrize("name", KINDS)
def test_every_input_counts_exactly_once_in_a_compiled_ledger(name: str, chunk: Chunk) -> None:
    check_fixed(KINDS[name], chunk)


@pytest.mark.parametrize("seeds", soaked("compiled ledgers", SEEDS))
def test_every_input_counts_exactly_once_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.compiled, seeds)


@pytest.mark.parametrize("seeds", soaked("unaligned compiled ledgers", SEEDS))
def test_every_input_counts_exactly_once_over_many_unaligned_seeds(seeds: range) -> None:
    check_many(Scenario.compiled_unaligned, seeds)


def test_ledgers_are_compiled_all_the_way_at_first_or_only_later() -> None:
    drawn = [tuple(each.__name__ for each in compiled_of(seed)) for seed in range(SEEDS)]
    assert set(drawn) == {
        ("compiled_ledger",),
        ("compiled_ledger", "own_ledger"),
        ("own_ledger", "compiled_ledger"),
    }


@pytest.mark.mutation
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("bug", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(bug: str, name: str) -> None:
    with MUTATIONS[bug]():
        assert is_noticed(KINDS[name], WITHIN), f"no seed notices that {bug}"
