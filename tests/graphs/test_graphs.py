"""Random graphs in the simulation give what a model of them gives that has no order and no time."""

from __future__ import annotations

import os

import pytest

from tests.graphs.defects import DEFECTS
from tests.graphs.playing import check_seed
from tests.simulation import noticing

SUITE, CHUNK = 24, 8
SEARCHED = int(os.environ.get("MAINSTAY_SEEDS", "400"))


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_random_graphs_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(SUITE, SUITE + SEARCHED, CHUNK))
def test_many_random_graphs_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.mutation
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_noticed(defect: str) -> None:
    with DEFECTS[defect]():
        assert noticing.is_noticed(check_seed, 200)
