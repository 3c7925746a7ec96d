"""Random graphs in the simulation give what a model of them gives that has no order and no time."""

from __future__ import annotations

import os

import pytest

from tests.graphs.playing import check_seed

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
