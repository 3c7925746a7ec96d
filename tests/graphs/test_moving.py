"""Random graphs that go on in another mode, backend, plan or place give what their model gives."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.graphs.moving import check_moving_seed, stages_of
from tests.simulation import noticing
from tests.simulation.shares import soaked
from tests.simulation.test_changed_programs import in_flight_rows_are_for_unaligned_jobs_only

SUITE, CHUNK = 12, 4


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_random_graphs_that_move_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_moving_seed(seed)


@pytest.mark.parametrize("seeds", soaked("moving", SUITE))
def test_many_random_graphs_that_move_give_what_their_model_gives(seeds: range) -> None:
    for seed in seeds:
        check_moving_seed(seed)


def test_what_changes_on_the_way_is_drawn() -> None:
    steps = [pair for seed in range(100) for pair in pairwise(stages_of(seed))]
    for what in ("mode", "parallelism", "backends"):
        changes = {(getattr(a, what), getattr(b, what)) for a, b in steps}
        assert sum(a != b for a, b in changes) > 1, f"{what} never changes"
    assert sum(a.tuning.max_chain != b.tuning.max_chain for a, b in steps) > len(steps) / 3


@pytest.mark.mutation
def test_in_flight_rows_that_another_mode_forgets_are_missed() -> None:
    with in_flight_rows_are_for_unaligned_jobs_only():
        assert noticing.is_noticed(check_moving_seed, 60)
