"""Patterns match what trying every way finds, whatever crashes, and leave no state behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.errors import MainstayError
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.operators.patterns.in_time import MatchInTime
from mainstay.runtime.operators.patterns.match import MatchRows
from mainstay.runtime.operators.patterns.runs import Runs
from tests.simulation.pattern_cases import CASES, Case, drawn_case, went
from tests.simulation.planting import planting

FAULTS: dict[str, Any] = {"parallelism": 1, "crashes": 4, "rescales": (3, 2)}
MODES = ("exactly_once", "unaligned")
STATES = ("partial", "waiting", "due")


def check(case: Case, seed: int, backend: str = "heap", **how: Any) -> None:
    result, found, wanted = went(case, seed, backend, **how)
    assert not result.output("late")
    assert found[0] == wanted[0], f"seed {seed}"
    assert found[1] == wanted[1], f"seed {seed}, of what timed out"
    for state in STATES if case.made.pattern.within_us else STATES[:2]:
        assert result.state("match", state) == {}, f"{state} is not empty, seed {seed}"


@pytest.mark.parametrize("name", CASES)
def test_crashes_and_rescales_change_no_match(name: str) -> None:
    number = list(CASES).index(name)
    check(CASES[name], number, mode=MODES[number % 2], **FAULTS)


@pytest.mark.parametrize(("backend", "name"), [("rocksdb", "relaxed"), ("external", "group")])
def test_matches_are_the_same_in_a_database(backend: str, name: str) -> None:
    check(CASES[name], 2, backend, **FAULTS)


def test_patterns_that_nobody_wrote_survive_crashes() -> None:
    for seed in range(2):
        check(drawn_case(seed), seed, mode=MODES[seed % 2], **FAULTS)


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["heap", "rocksdb", "external"])
@pytest.mark.parametrize("mode", MODES)
def test_many_patterns_survive_crashes(mode: str, backend: str) -> None:
    for seed in range(100):
        check(drawn_case(seed), seed, backend, mode=mode, **FAULTS)
        check(list(CASES.values())[seed % len(CASES)], seed, backend, mode=mode, **FAULTS)


# ---------------------------------------------------------------- planted bugs

BUGS, bug = planting()


@bug
def how_far_a_key_group_has_come_is_not_stored() -> Iterator[None]:
    """So that rows of a pane that is still there are matched again."""
    with patch.object(FiredTimes, "store", lambda self: None):
        yield


@bug
def a_slice_does_not_note_how_far_it_came() -> Iterator[None]:
    right = FiredTimes.advance
    by_slice = MatchInTime._in_order

    def in_order(self: Any, *arguments: Any) -> Iterator[None]:
        with patch.object(FiredTimes, "advance", lambda self, time_us: None):
            slices = by_slice(self, *arguments)
            first = next(slices, slices)
        if first is not slices:
            yield
            for each in slices:
                right(self._fired, 0)
                yield each

    with patch.object(MatchInTime, "_in_order", in_order):
        yield


@bug
def rows_are_matched_in_the_order_in_which_they_came() -> Iterator[None]:
    with patch("numpy.argsort", lambda times, **_: __import__("numpy").arange(len(times))):
        yield


@bug
def open_edges_are_not_kept() -> Iterator[None]:
    """A restored run may take again what it has taken."""
    right = Runs.restore

    def restore(self: Any, rows: Any, times: Any, runs: Any) -> None:
        right(self, rows, times, runs)
        for run in self.running:
            run.open = self._places[run.places[-1]].all_open

    with patch.object(Runs, "restore", restore):
        yield


@bug
def a_run_that_has_timed_out_stays_in_the_state() -> Iterator[None]:
    right = MatchRows._end

    def end(self: Any, keys: Any, until_us: Any) -> None:
        with patch.object(type(self._partial), "put_many", lambda *arguments: None):
            right(self, keys, until_us)

    with patch.object(MatchRows, "_end", end):
        yield


@bug
def a_match_does_not_wait_for_one_that_began_before() -> Iterator[None]:
    right = Runs.release

    def release(self: Any, time_us: Any, out: Any) -> None:
        running, self.running = self.running, []
        right(self, time_us, out)
        last = max((each.run.rows[-1] for each in out if each.is_match), default=-1)
        self.running = [run for run in running if run.rows[0] > last]

    with patch.object(Runs, "release", release):
        yield


@bug
def the_shortest_of_several_matches_counts() -> Iterator[None]:
    def rank(self: Any, run: Any) -> Any:
        return run.rows[0], run.state, run.rows[-1], len(run.rows), run.rows, run.places

    with patch.object(Runs, "rank", rank):
        yield


@bug
def a_step_goes_on_behind_its_end() -> Iterator[None]:
    right = Runs._decide

    def decide(self: Any, edge: Any, run: Any) -> tuple[bool, bool]:
        return right(self, replace(edge, until=None), run)

    with patch.object(Runs, "_decide", decide):
        yield


@bug
def a_restored_group_begins_anew() -> Iterator[None]:
    """How often it has come is in the place of a run."""
    right = Runs.restore

    def restore(self: Any, rows: Any, times: Any, runs: Any) -> None:
        right(self, rows, times, runs)
        first: dict[int, int] = {}
        for number, place in enumerate(self._places):
            first.setdefault(place.step, number)
        for run in (*self.running, *self.held):
            run.places = tuple(first[self._places[place].step] for place in run.places)

    with patch.object(Runs, "restore", restore):
        yield


@bug
def time_is_over_a_moment_too_late() -> Iterator[None]:
    right = Runs.due_us

    def due_us(self: Any) -> int | None:
        found = right(self)
        return None if found is None else found + 1

    with patch.object(Runs, "due_us", due_us):
        yield


NOTICED_BY = {
    "how far a key group has come is not stored": "any",
    "a slice does not note how far it came": "any",
    "rows are matched in the order in which they came": "strict",
    "open edges are not kept": "loop",
    "a run that has timed out stays in the state": "strict",
    "a match does not wait for one that began before": "for ever",
    "the shortest of several matches counts": "loop",
    "time is over a moment too late": "any",
    "a step goes on behind its end": "until",
    "a restored group begins anew": "group",
}
"""Which case notices."""
FIRST = {
    "a slice does not note how far it came": 7,
    "how far a key group has come is not stored": 7,
    "open edges are not kept": 3,
    "the shortest of several matches counts": 2,
    "time is over a moment too late": 5,
}
"""The seeds that are the first to notice; without one it is the first seed."""


def _goes_wrong(name: str, seed: int) -> bool:
    try:
        check(CASES[name], seed, **FAULTS)
    except (AssertionError, MainstayError):
        return True
    return False


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with BUGS[name]():
        seeds = (FIRST.get(name, 0), *range(20))
        assert any(_goes_wrong(NOTICED_BY[name], seed) for seed in seeds)
