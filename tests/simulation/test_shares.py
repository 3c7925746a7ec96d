"""The soak plays as many seeds as it is asked for, and none of them twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.shares import SHARES, beginning, ranges, soaked

TESTS = Path(__file__).parents[1]
TOLD = {"MAINSTAY_SEEDS": "30000"}


@pytest.mark.parametrize("seeds", [0, 1, 777, 1000, 30_000, 100_001])
def test_the_shares_of_all_lists_are_the_whole(seeds: int) -> None:
    assert sum(SHARES.values()) == 1000
    told = {"MAINSTAY_SEEDS": str(seeds)}
    played = [some for name in SHARES for some in ranges(name, 0, told)]
    assert sum(map(len, played)) == seeds


@pytest.mark.parametrize("name", SHARES)
def test_a_list_has_its_share(name: str) -> None:
    assert sum(map(len, ranges(name, 0, TOLD))) == 30 * SHARES[name]


def test_no_seed_of_a_list_is_played_twice_or_left_out() -> None:
    seeds = [seed for some in ranges("seeds", 140, {"MAINSTAY_SEEDS": "7000"}) for seed in some]
    assert seeds == list(range(140, 140 + 7 * SHARES["seeds"]))


def test_a_list_begins_where_it_is_told_to_and_not_before_those_of_the_suite() -> None:
    first = {**TOLD, "MAINSTAY_FIRST_SEED": "500000"}
    assert next(ranges("loops", 40, first)).start == 500_000
    assert next(ranges("loops", 40, {**TOLD, "MAINSTAY_FIRST_SEED": "7"})).start == 40
    assert beginning(40, first) == 500_000


def test_every_case_of_a_list_is_dealt_seeds() -> None:
    assert len(list(ranges("connected", 1, {"MAINSTAY_SEEDS": "1000"}, hands=12))) >= 12
    assert len(list(ranges("external stores", 4, {"MAINSTAY_SEEDS": "1000"}, hands=3))) >= 3


def test_what_is_soaked_is_left_out_of_the_suite() -> None:
    assert all(each.marks[0].name == "soak" for each in soaked("seeds", 0, TOLD))


def test_each_list_is_played_by_one_test() -> None:
    """A name that no test plays would take seeds from the others, and be searched by nobody."""
    call = re.compile(r'\b(?:soaked|dealt)\(\s*"([^"]+)", ')
    played = Counter(name for text in sources().values() for name in call.findall(text))
    assert played == dict.fromkeys(SHARES, 1)


def test_nobody_else_takes_as_many_seeds_as_the_soak_is_asked_for() -> None:
    """Six lists did, beside those that have shares."""
    told = [name for name, text in sources().items() if "MAINSTAY_SEEDS" in text]
    assert told == [str(Path("simulation", "shares.py"))]


def sources() -> dict[str, str]:
    """The text of every file of tests but this one."""
    found = (path for path in TESTS.rglob("*.py") if path != Path(__file__))
    return {str(path.relative_to(TESTS)): path.read_text("utf-8") for path in found}
