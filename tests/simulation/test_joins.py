"""Joins give what DuckDB gives, whatever crashes, and leave no state behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from mainstay.errors import MainstayError
from tests.simulation.join_cases import (
    CASES,
    Case,
    behind_an_outer_join,
    behind_an_until_join,
    on_the_bounds,
    went,
)
from tests.simulation.join_mutations import MUTATIONS

SEEDS = 2


def check(name: str, seed: int, **how: object) -> None:
    case = CASES[name]
    result, found, wanted = went(case, seed, **how)
    if "keep" not in case.options:
        assert not result.output("late-left")
        assert not result.output("late-right")
    assert found - wanted == wanted - found == {}, f"seed {seed}"
    for state in case.states:
        assert result.state("join", state) == {}, f"{state} is not empty, seed {seed}"


@pytest.mark.parametrize("name", CASES)
def test_a_join_is_what_duckdb_says(name: str) -> None:
    for seed in range(SEEDS):
        check(name, seed)


def _struck() -> Iterator[Any]:
    """Every join in both modes: in the suite in one of them, in turn, and with one seed."""
    modes = ["exactly_once", "unaligned"]
    for (number, name), mode, seed in product(enumerate(CASES), modes, range(SEEDS)):
        is_chosen = mode == modes[number % 2] and seed == 0
        yield pytest.param(name, mode, seed, marks=() if is_chosen else pytest.mark.soak)


@pytest.mark.parametrize(("name", "mode", "seed"), list(_struck()))
def test_a_join_survives_crashes_and_rescales(name: str, mode: str, seed: int) -> None:
    check(name, seed, parallelism=1, crashes=4, rescales=(3, 2), mode=mode)


@pytest.mark.parametrize("name", ["interval-full", "window-full", "as-of-left"])
def test_a_join_of_sources_that_are_idle_now_and_then_leaves_nothing_out(name: str) -> None:
    case = CASES[name]
    for seed in range(SEEDS):
        result, found, wanted = went(case, seed, crashes=2, mode="unaligned", idle=True)
        late = {row[1] for uid in ("late-left", "late-right") for row in result.output(uid)}
        # What an idle source gives later may be late, and is then there, and only there.
        if not late:
            assert found == wanted, f"seed {seed}"
        emitted = {row[1] for row in found} | {row[3] for row in found}
        assert not emitted & late
        assert {row[1] for row in wanted} - {None} <= emitted | late


def test_a_window_behind_an_outer_join_takes_all_of_its_rows() -> None:
    for seed in range(SEEDS):
        found, wanted = behind_an_outer_join(seed, crashes=2)
        assert found == wanted, f"seed {seed}"


def test_a_window_behind_a_join_with_ends_of_rows_goes_by_them_and_takes_all() -> None:
    for seed in range(SEEDS):
        found, wanted = behind_an_until_join(seed, crashes=2, rescales=(3,))
        assert found == wanted, f"seed {seed}"


def test_rows_on_the_very_bounds_are_joined() -> None:
    for seed in range(SEEDS):
        found, wanted = on_the_bounds(seed)
        assert found == wanted, f"seed {seed}"


def is_noticed(name: str) -> bool:
    if name == "the watermark is not held back":
        return any(
            found != wanted for found, wanted in map(behind_an_outer_join, (1, 4, *range(20)))
        )
    if name == "a pane goes a microsecond too early":
        return any(found != wanted for found, wanted in map(on_the_bounds, (6, 7, *range(20))))
    if name == "the watermark is not held back for ends of rows":
        return any(found != wanted for found, wanted in map(behind_an_until_join, range(20)))
    return any(_goes_wrong(CASES[case], seed) for seed in range(12) for case in NOTICED_BY[name])


NOTICED_BY = {
    "a dropped pane leaves no drop": ["interval-full"],
    "that a row has matched is not stored": ["interval-left"],
    "flags of restored rows are not read": ["interval-left"],
    "right rows match what has ended": ["until-inner"],
    "panes of ends are those of times": ["until-left"],
    "rows that were gathered stay behind a marker": ["interval-inner"],
}


def _goes_wrong(case: Case, seed: int) -> bool:
    try:
        result, found, wanted = went(case, seed, parallelism=1, crashes=6, rescales=(2,))
    except MainstayError:
        return True
    kept = any(result.state("join", state) for state in case.states)
    return kept or found != wanted


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(name), f"nothing notices that {name}"
