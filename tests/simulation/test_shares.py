"""The soak plays as many seeds as it is asked for, and none of them twice."""

from __future__ import annotations

from tests.simulation.shares import SHARES, ranges, soaked

TOLD = {"MAINSTAY_SEEDS": "30000"}


def test_the_shares_of_all_lists_are_the_whole() -> None:
    assert sum(SHARES.values()) == 100
    played = [seeds for name in SHARES for seeds in ranges(name, 0, TOLD)]
    assert sum(map(len, played)) == 30_000


def test_no_seed_of_a_list_is_played_twice_or_left_out() -> None:
    seeds = [seed for some in ranges("seeds", 140, {"MAINSTAY_SEEDS": "777"}) for seed in some]
    assert seeds == list(range(140, 295))


def test_a_list_begins_where_it_is_told_to_and_not_before_those_of_the_suite() -> None:
    first = {**TOLD, "MAINSTAY_FIRST_SEED": "500000"}
    assert next(ranges("loops", 40, first)).start == 500_000
    assert next(ranges("loops", 40, {**TOLD, "MAINSTAY_FIRST_SEED": "7"})).start == 40


def test_every_case_of_a_list_is_dealt_seeds() -> None:
    assert len(list(ranges("connected", 1, {"MAINSTAY_SEEDS": "1000"}, hands=12))) >= 12


def test_what_is_soaked_is_left_out_of_the_suite() -> None:
    assert all(each.marks[0].name == "soak" for each in soaked("seeds", 0, TOLD))
