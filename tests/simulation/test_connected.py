"""Connected inputs, broadcast state and partitioners under crashes, rescales and overtaking."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mainstay.errors import MainstayError
from tests.simulation.connected_cases import CASES, went_wrong
from tests.simulation.connected_mutations import MUTATIONS
from tests.simulation.shares import dealt

HOW: dict[str, Any] = {"parallelism": 2, "crashes": 4, "rescales": (3, 1, 4)}


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("case", CASES)
def test_every_row_counts_once_and_where_it_should(case: str, mode: str) -> None:
    assert went_wrong(case, 0, mode=mode, **HOW) == []


@pytest.mark.parametrize(
    ("how", "seeds"), dealt("connected", 1, list(product(CASES, ["exactly_once", "unaligned"])))
)
def test_so_it_does_over_many_seeds(how: tuple[str, str], seeds: range) -> None:
    case, mode = how
    for seed in seeds:
        assert went_wrong(case, seed, mode=mode, **HOW) == [], f"seed {seed}"


# ---------------------------------------------------------------- planted bugs

NOTICED_BY = {
    "broadcast state of a new subtask is empty": ("price", 7),
    "broadcast state is the sum of all copies": ("price", 0),
    "in flight rows of a partitioner go in turn": ("chosen", 0),
    "in flight rows of the third input go to the second": ("settle", 2),
    "the watermark of the third input is ignored": ("settle", 5),
}
"""The case, and a seed that is known to notice: it is tried first."""


def is_noticed(case: str, first: int) -> bool:
    return any(_goes_wrong(case, seed) for seed in (first, *range(60)))


def _goes_wrong(case: str, seed: int) -> bool:
    try:
        return went_wrong(case, seed, mode="unaligned", **HOW) != []
    except MainstayError:
        return True


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(*NOTICED_BY[name]), f"nothing notices that {name}"
