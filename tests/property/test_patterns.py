"""Patterns match what trying every way to give rows to their steps finds."""

from __future__ import annotations

import warnings
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import mainstay as ms
from mainstay.runtime.operators.patterns.automaton import automaton_of
from mainstay.runtime.operators.patterns.runs import Outcome, Runs
from mainstay.runtime.patterns import PatternSpec
from tests.matching import SKIPS, Drawn, Path, Trying, drawn, rises

LETTERS = "abcde"


def rows_of(random: Random, count: int) -> list[tuple[int, tuple[str, int]]]:
    """Times, which rise, and rows of a letter and a number."""
    now, found = 0, []
    for _ in range(count):
        now += random.randint(0, 3)
        found.append((now, (random.choice(LETTERS), random.randrange(5))))
    return found


def found_by_runs(
    made: Drawn, rows: list[Any], skip: Any, random: Random
) -> tuple[list[Path], list[Path]]:
    """What comes out while rows come, one by one. The state is kept and restored now and then."""
    pattern = made.pattern
    spec = PatternSpec(pattern.members, pattern.within_us, skip)
    automaton = automaton_of(pattern.members)
    number_of = {id(row): number for number, (_, row) in enumerate(rows)}

    def ask(runs: Runs, step: int, row: Any, run: Any) -> bool:
        taken = () if run is None else zip(run.rows, run.places, strict=True)
        names = [
            (runs.rows[number], pattern.steps[automaton.places[place].step].name)
            for number, place in taken
        ]
        return bool(made.conditions[step](row, names))

    def new() -> Runs:
        return Runs("k", automaton, pattern.within_us, skip, ask)

    runs, out = new(), list[Outcome]()
    for time, row in rows:
        asked = zip(spec.conditions, made.conditions, strict=True)
        verdicts = [None if condition.function else holds(row, ()) for condition, holds in asked]
        runs.take(row, time, verdicts, out)
        if random.random() < 0.3:
            kept = runs.kept()
            runs = new()
            if kept is not None:
                runs.restore(*kept)
        if random.random() < 0.2:
            # A watermark, which may end what no row to come could belong to.
            runs.expire(time, out)
    if pattern.within_us is None:
        runs.end(out)
    else:
        runs.expire(1 << 60, out)
    assert runs.kept() is None

    def path(each: Outcome) -> Path:
        steps = [automaton.places[place].step for place in each.run.places]
        return tuple(zip((number_of[id(row)] for row in each.rows), steps, strict=True))

    matches = [path(each) for each in out if each.is_match]
    return matches, [path(each) for each in out if not each.is_match]


def check(seed: int, *, leaves_heads: bool = False) -> None:
    random = Random(seed)
    within = random.choice([None, 4e-6, 8e-6])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = drawn(random, within=within, leaves_heads=leaves_heads)
    compare(made, rows_of(random, random.randint(3, 9)), random, seed)


def compare(made: Drawn, rows: list[Any], random: Random, seed: int | None = None) -> None:
    """Both find the same, whatever is skipped."""
    for skip in SKIPS:
        wanted = Trying(made.pattern, made.conditions, rows).found(skip)
        matches, timed_out = found_by_runs(made, rows, skip, random)
        told = SimpleNamespace(seed=seed, skip=skip, members=made.pattern.members, rows=rows)
        # Those that end at different rows come in the order of these.
        order = sorted if skip == "none" else list
        assert order(matches) == order(wanted.matches), told
        assert sorted(timed_out) == sorted(wanted.timed_out), told


def test_what_must_not_come_behind_a_step_that_goes_on() -> None:
    letters = ms.col("letter")
    pattern = (
        ms.pattern("s0", rises)
        .times(1, 2)
        .not_then("s1", letters == "b")
        .not_followed_by("s2", letters.isin("a", "c"))
        .followed_by_any("s3", letters.isin("a", "d"))
        .one_or_more()
        .within(8e-6)
    )
    conditions = [
        lambda row, taken: not taken or row[1] > taken[-1][0][1],
        lambda row, taken: row[0] == "b",
        lambda row, taken: row[0] in "ac",
        lambda row, taken: row[0] in "ad",
    ]
    rows = [(1, ("c", 2)), (2, ("e", 2)), (4, ("c", 1)), (4, ("d", 3)), (5, ("b", 3))]
    compare(Drawn(pattern, conditions), rows, Random(0))


def test_what_is_found_row_by_row_is_what_every_way_finds() -> None:
    for seed in range(400):
        check(seed)


def test_groups_without_their_first_steps_are_found_as_every_way_finds_them() -> None:
    for seed in range(300):
        check(seed, leaves_heads=True)


@pytest.mark.soak
def test_what_is_found_row_by_row_is_what_every_way_finds_for_many_patterns() -> None:
    for seed in range(400, 40_000):
        check(seed)


@pytest.mark.soak
def test_groups_without_their_first_steps_are_found_for_many_patterns() -> None:
    for seed in range(300, 10_000):
        check(seed, leaves_heads=True)
