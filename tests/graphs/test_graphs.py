"""Random graphs in the simulation give what a model of them gives that has no order and no time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.graphs.defects import DEFECTS, GRAPHS
from tests.graphs.playing import check_graph_of, check_seed, scenario_of
from tests.simulation import noticing
from tests.simulation.shares import soaked

SUITE, CHUNK = 12, 4


@pytest.mark.parametrize("first", range(0, SUITE, CHUNK))
def test_random_graphs_give_what_their_model_gives(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.parametrize("seeds", soaked("graphs", SUITE))
def test_many_random_graphs_give_what_their_model_gives(seeds: range) -> None:
    for seed in seeds:
        check_seed(seed)


@pytest.mark.parametrize("defect", GRAPHS)
def test_graphs_of_planted_defects_are_right_without_them(defect: str) -> None:
    check_graph_of(GRAPHS[defect], replace(scenario_of(0), mode="exactly_once"))


@pytest.mark.mutation
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_noticed(defect: str) -> None:
    def check(seed: int) -> None:
        course = replace(scenario_of(seed), mode="exactly_once")
        check_graph_of(GRAPHS[defect], course)

    with DEFECTS[defect]():
        assert noticing.is_noticed(check, 20)
