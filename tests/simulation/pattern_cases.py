"""Patterns over drawn rows, out of order, with what trying every way finds in the same rows."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.operators.patterns import in_time, match
from mainstay.testing import rows
from mainstay.testing import run as run_in_simulation
from mainstay.testing.run import Result
from tests.matching import LETTERS, SKIPS, Drawn, Trying, drawn, rises
from tests.simulation.keeping_cases import kept_in
from tests.times import DAY

EVENT = "k string, letter string, n long, at timestamp"
MATCH = "k string, ns array<long>, steps array<string>"
DELAY_S = 4
ROWS, KEYS = 90, 4


@dataclass(frozen=True)
class Case:
    """A pattern, which matches count, and the conditions as the model asks them."""

    made: Drawn
    skip: Any


def is_letter(letters: str) -> Any:
    return ms.col("letter").isin(*letters)


def asked(letters: str) -> Any:
    return lambda row, taken: row[0] in letters


def rising(row: Any, taken: Any) -> bool:
    return not taken or row[1] > taken[-1][0][1]


def _case(pattern: ms.Pattern, conditions: list[Any], skip: str) -> Case:
    return Case(Drawn(pattern, conditions), skip)


a = ms.pattern("a", is_letter("a"))
CASES = {
    "strict": _case(a.then("b", is_letter("bc")).within("20s"), [asked("a"), asked("bc")], "none"),
    "relaxed": _case(
        a.followed_by("b", is_letter("b")).followed_by("c", is_letter("c")).within("8s"),
        [asked("a"), asked("b"), asked("c")],
        "past_last",
    ),
    "any": _case(
        a.followed_by_any("b", is_letter("b")).within("10s"), [asked("a"), asked("b")], "none"
    ),
    "loop": _case(
        a.followed_by("b", rises).one_or_more().followed_by("c", is_letter("c")).within("9s"),
        [asked("a"), rising, asked("c")],
        "to_next",
    ),
    "not at the end": _case(
        a.not_followed_by("b", is_letter("b")).within("5s"), [asked("a"), asked("b")], "past_last"
    ),
    "until": _case(
        a.followed_by("b", is_letter("ab"))
        .one_or_more()
        .until(is_letter("d"))
        .followed_by("c", is_letter("cd"))
        .within("9s"),
        [asked("a"), asked("ab"), asked("cd"), asked("d")],
        "none",
    ),
    "group": _case(
        a.followed_by(ms.pattern("b", is_letter("b")).followed_by("c", is_letter("ac")))
        .times(2, 3)
        .followed_by("d", is_letter("d"))
        .within("20s"),
        [asked("a"), asked("b"), asked("ac"), asked("d")],
        "to_next",
    ),
    "for ever": _case(
        a.followed_by("b", rises).followed_by("c", is_letter("bc")),
        [asked("a"), rising, asked("bc")],
        "past_last",
    ),
}


def drawn_case(seed: int) -> Case:
    """A pattern that nobody wrote."""
    random = Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Case(drawn(random, within=random.choice(["4s", "8s"])), random.choice(SKIPS))


def events(seed: int) -> list[tuple[Any, ...]]:
    """Rows whose times rise, but for up to the delay; no two of a key have the same."""
    random = Random(seed)
    ticks = sorted(random.sample(range(4 * ROWS), ROWS))
    made = [
        (f"k{random.randrange(KEYS)}", random.choice(LETTERS), random.randrange(9), tick / 4)
        for tick in ticks
    ]
    made.sort(key=lambda row: row[3] + random.uniform(0, DELAY_S - 0.2))
    return [(*row[:3], DAY + timedelta(seconds=row[3])) for row in made]


def went(case: Case, seed: int, backend: str = "heap", **how: Any) -> tuple[Result, Any, Any]:
    """A run, what it has found, and what it should have."""
    given = events(seed)

    def build(env: ms.Environment) -> None:
        mark = ms.Watermark("at", delay=f"{DELAY_S}s")
        stream = env.source(rows(EVENT, given, splits=2), uid="in", watermark=mark)
        found = stream.key_by("k").match(
            case.made.pattern, as_row, MATCH, skip=case.skip, uid="match"
        )
        found.sink(Memory(), uid="out")
        found.late.sink(Memory(), uid="late")
        if case.made.pattern.within_us is not None:
            found.timed_out.sink(Memory(), uid="timed-out")

    with ExitStack() as stack:
        # Little at a time, so that markers come between.
        stack.enter_context(patch("mainstay.runtime.watermarks.EVERY_S", 0.0))
        stack.enter_context(patch.object(in_time, "SLICE_ROWS", 3))
        stack.enter_context(patch.object(match, "SLICE_KEYS", 1))
        stack.enter_context(kept_in(backend, seed))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        result = run_in_simulation(build, seed=seed, **how)
    return result, found_in(case, result), expected(case, given)


def as_row(match: ms.Match) -> Any:
    return match.key, [microseconds(row.at) for row in match.rows], list(match.steps)


def microseconds(at: Any) -> int:
    return int((at - DAY) // timedelta(microseconds=1))


def found_in(case: Case, result: Result) -> tuple[Counter[Any], Counter[Any]]:
    matches = Counter((k, tuple(ns), tuple(steps)) for k, ns, steps in result.output("out"))
    if case.made.pattern.within_us is None:
        return matches, Counter()
    return matches, Counter(map(partial, result.output("timed-out")))


def partial(row: Any) -> Any:
    """The times of the rows of a partial match."""
    steps = (each if isinstance(each, list) else [each] for each in row[3:] if each is not None)
    return row[0], tuple(sorted(microseconds(each.at) for step in steps for each in step))


def expected(case: Case, given: list[Any]) -> tuple[Counter[Any], Counter[Any]]:
    matches: Counter[Any] = Counter()
    timed_out: Counter[Any] = Counter()
    names = [step.name for step in case.made.pattern.steps]
    for key in {row[0] for row in given}:
        own = [(microseconds(at), (letter, n)) for k, letter, n, at in given if k == key]
        own.sort(key=lambda row: row[0])
        found = Trying(case.made.pattern, case.made.conditions, own).found(case.skip)
        for path in found.matches:
            times = tuple(own[row][0] for row, _ in path)
            matches[key, times, tuple(names[step] for _, step in path)] += 1
        for path in found.timed_out:
            timed_out[key, tuple(own[row][0] for row, _ in path)] += 1
    return matches, timed_out
