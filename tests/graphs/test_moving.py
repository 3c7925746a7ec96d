"""Random graphs that go on in another mode, backend, plan or place give what their model gives."""

from __future__ import annotations

import os

import pytest

from tests.graphs.moving import check_moving_seed
from tests.simulation.shares import beginning

SUITE, CHUNK = 12, 4
SEARCHED = int(os.environ.get("MAINSTAY_SEEDS", "400"))
FIRST = beginning(SUITE)


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_random_graphs_that_move_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_moving_seed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEARCHED, CHUNK))
def test_many_random_graphs_that_move_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_moving_seed(seed)
