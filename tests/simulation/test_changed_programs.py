"""In-flight rows of unaligned epochs are taken whatever has changed about the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.coordinator import recovery
from mainstay.runtime.operators.aggregate import AggregateByKey, Gathering
from mainstay.runtime.spec import HashByKey, Rebalance
from mainstay.runtime.worker import assembly, replays
from mainstay.runtime.worker.inputs.source import SourceInput
from mainstay.runtime.worker.replays import Replays
from mainstay.runtime.worker.task import Task
from tests.simulation.changes import (
    Changes,
    ChangingRun,
    Program,
    check,
    check_seeds,
    is_noticed,
    play,
)
from tests.simulation.seeds import in_chunks
from tests.simulation.shares import soaked

SEEDS = 40
CHUNK = 5

PROGRAM = Program(
    mode="unaligned",
    parallelism=3,
    to_map="rebalance",
    map_parallelism=None,
    has_extra=False,
    to_filter="rebalance",
    filter_parallelism=None,
    is_named=True,
    has_loop=False,
    has_totals=False,
)


@pytest.mark.parametrize("first", in_chunks(SEEDS, CHUNK, suite=5))
def test_every_input_counts_once_whatever_changes_between_two_runs(first: int) -> None:
    check_seeds(first, CHUNK)


@pytest.mark.parametrize("seeds", soaked("changed programs", SEEDS))
def test_every_input_counts_once_over_many_seeds(seeds: range) -> None:
    check_seeds(seeds.start, len(seeds))


def test_an_epoch_has_time_to_go_round_a_loop_in_narrow_windows() -> None:
    """Every epoch of this seed was late by some milliseconds, so the job had no end."""
    check_seeds(7300202, 1)


def test_the_fixed_seeds_cover_what_they_should() -> None:
    changes = [Changes.of(seed) for seed in range(SEEDS)]
    steps = [step for c in changes for step in zip(c.programs, c.programs[1:], strict=False)]
    for name in ("mode", "parallelism", "to_map", "map_parallelism", "has_extra", "to_filter"):
        changed = {(getattr(a, name), getattr(b, name)) for a, b in steps}
        assert sum(a != b for a, b in changed) > 1, f"{name} never changes"
    assert {b.mode for _, b in steps} == {"unaligned", "exactly_once", "at_least_once"}
    assert sum(c.is_ordered for c in changes) > SEEDS / 4
    for name in ("is_named", "has_loop", "has_totals"):
        assert {getattr(c.programs[0], name) for c in changes} == {False, True}, name


# ---------------------------------------------------------------- one change at a time


def check_change(first: Program, then: Program) -> None:
    """Some seeds in which the first program leaves in-flight rows to the second."""
    found = 0
    for seed in range(200):
        changes = replace(Changes.of(seed), programs=(first, then))
        changes = replace(changes, scenario=replace(changes.scenario, mode=then.mode))
        outcome, held = play(changes)
        check(changes, outcome)
        found += held
        if found >= 2:
            return
    raise AssertionError(f"only {found} of 200 seeds restore in-flight rows")


CHANGES = {
    "the_mode_is_exactly_once": {"mode": "exactly_once"},
    "the_mode_is_at_least_once": {"mode": "at_least_once"},
    "there_are_fewer_subtasks": {"parallelism": 2},
    "there_are_more_subtasks": {"parallelism": 4},
    "there_is_one_subtask": {"parallelism": 1},
    "a_rebalanced_map_is_chained": {"to_map": "forward"},
    "all_is_chained_and_exactly_once": {
        "to_map": "forward",
        "to_filter": "forward",
        "mode": "exactly_once",
    },
    "a_rebalanced_map_is_keyed": {"to_map": "key"},
    "an_operator_is_inserted": {"has_extra": True},
    "an_operator_has_its_own_parallelism": {"map_parallelism": 1},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_named", [True, False], ids=["with_uids", "without_uids"])
def test_in_flight_rows_are_taken_when(change: str, is_named: bool) -> None:
    first = replace(PROGRAM, is_named=is_named)
    check_change(first, replace(first, **CHANGES[change]))


def test_in_flight_rows_of_a_keyed_edge_are_taken_when_it_is_forward() -> None:
    first = replace(PROGRAM, to_map="key", to_filter="key")
    check_change(first, replace(first, to_map="forward", to_filter="forward"))


def test_in_flight_rows_are_taken_when_equal_parallelism_chains_two_operators() -> None:
    first = replace(PROGRAM, to_map="forward", map_parallelism=2, to_filter="forward")
    check_change(first, replace(first, parallelism=2))


def test_in_flight_rows_go_into_a_loop_and_come_from_one() -> None:
    first = replace(PROGRAM, has_loop=True)
    check_change(first, replace(first, to_map="forward", to_filter="forward", parallelism=2))


@pytest.mark.parametrize("parallelism", [(3, 1), (1, 3)], ids=["is_gone", "is_new"])
def test_partial_results_and_rows_are_folded_where_a_combiner(parallelism: Any) -> None:
    before, after = parallelism
    first = replace(PROGRAM, has_totals=True, parallelism=before)
    check_change(first, replace(first, mode="exactly_once", parallelism=after))


def test_a_refusal_says_what_to_do_and_that_loses_nothing() -> None:
    first = replace(PROGRAM, has_extra=True, map_parallelism=2)
    with patch.object(ChangingRun, "stage", autospec=True, side_effect=ChangingRun.stage) as stages:
        check_change(first, replace(first, has_extra=False, mode="exactly_once"))
    # Two stages for each seed, and two more for each refusal.
    assert stages.call_count > 2 * 2


# ---------------------------------------------------------------- planted bugs


@contextmanager
def in_flight_rows_are_for_unaligned_jobs_only() -> Iterator[None]:
    right = recovery.in_flight_rows

    def forget(manifest: Any, job: Any, allowed: Any) -> Any:
        return right(manifest, job, allowed) if job.is_unaligned else {}

    with patch.object(recovery, "in_flight_rows", forget):
        yield


@contextmanager
def only_the_first_operator_of_a_chain_takes_them() -> Iterator[None]:
    right = Replays.add

    def first_only(self: Any, place: int, port: int, edge: str, batch: Any) -> None:
        if place == 0:
            right(self, place, port, edge, batch)

    with patch.object(Replays, "add", first_only):
        yield


@contextmanager
def the_first_operator_of_a_chain_takes_all() -> Iterator[None]:
    right = Replays.add

    def at_the_head(self: Any, place: int, port: int, edge: str, batch: Any) -> None:
        right(self, 0, port, edge, batch)

    with patch.object(Replays, "add", at_the_head):
        yield


@contextmanager
def rows_of_a_keyed_edge_are_dealt_out_in_turn() -> Iterator[None]:
    right = replays.own_rows

    def in_turn(units: Any, *rest: Any) -> Any:
        dealt = [
            replace(unit, partitioning=Rebalance())
            if isinstance(unit.partitioning, HashByKey)
            else unit
            for unit in units
        ]
        return right(dealt, *rest)

    with patch.object(assembly, "own_rows", in_turn):
        yield


@contextmanager
def what_is_still_to_be_taken_is_in_no_later_epoch() -> Iterator[None]:
    with patch.object(Replays, "kept", lambda self: []):
        yield


@contextmanager
def a_source_cuts_before_its_chain_has_taken_them() -> Iterator[None]:
    def at_once(self: Any, epoch: Any, *, is_last: bool = False) -> None:
        self.snapshots.cut(epoch)
        self._is_held = self._is_held or is_last

    with patch.object(SourceInput, "on_trigger", at_once):
        yield


@contextmanager
def new_rows_come_before_them() -> Iterator[None]:
    right = Task.step

    def new_first(self: Any) -> bool:
        waiting, self.chain.replays = self.chain.replays, Replays()
        progressed = right(self)
        self.chain.replays = waiting
        if self.channels is not None:
            self.channels._replays = waiting
        return progressed or right(self)

    with patch.object(Task, "step", new_first):
        yield


@contextmanager
def both_forms_of_an_aggregate_are_taken_for_one() -> Iterator[None]:
    with patch.object(AggregateByKey, "process", Gathering.process):
        yield


BUGS = [
    in_flight_rows_are_for_unaligned_jobs_only,
    only_the_first_operator_of_a_chain_takes_them,
    the_first_operator_of_a_chain_takes_all,
    rows_of_a_keyed_edge_are_dealt_out_in_turn,
    what_is_still_to_be_taken_is_in_no_later_epoch,
    a_source_cuts_before_its_chain_has_taken_them,
    new_rows_come_before_them,
    both_forms_of_an_aggregate_are_taken_for_one,
]


@pytest.mark.mutation
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: Any) -> None:
    with bug():
        assert is_noticed(300)
