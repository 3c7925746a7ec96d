"""Sets of distinct values in every backend: segments hold what was added, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import mainstay as ms
from mainstay.schema import to_schema
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import open_state_file
from mainstay.state import merge
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import aggregation_of
from mainstay.state.backends.heap.lanes import SetLane
from mainstay.state.distinct import DistinctValues
from mainstay.state.operations import APPEND, PUT, may_append
from tests.contract.conftest import IN_MEMORY, opening
from tests.contract.distinct_job import STATES, Job, trial
from tests.simulation.noticing import is_noticed
from tests.simulation.planting import planting

APPENDING = [
    *(("heap", form) for form in STATES),
    *(("rocksdb-in-memory", form) for form in ("columns", "panes")),
]
MUTATIONS, mutation = planting()


@pytest.mark.parametrize("form", STATES)
@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_backend_keeps_what_sets_keep(name: str, form: str) -> None:
    for seed in range(2):
        trial(opening(name), form, seed)


@pytest.mark.soak
@pytest.mark.parametrize("form", STATES)
@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_backend_keeps_what_sets_keep_whatever_is_drawn(name: str, form: str) -> None:
    for seed in range(300):
        trial(opening(name), form, seed)


# ---------------------------------------------------------------- what segments hold


def ops_in(job: Job) -> list[int]:
    """What the newest segments do."""
    ops = []
    for ref in newest(job):
        file = open_state_file(job.opened.storage, ref.file)
        ops += file.read("sets", 0, 127).table.column("op").to_pylist()
    return ops


def newest(job: Job) -> list[SegmentRef]:
    return [subtask.chain[-1] for subtask in job.epoch if subtask.chain]


def written_bytes(job: Job) -> int:
    return sum(ref.file.size_bytes for ref in newest(job))


@pytest.mark.parametrize(("name", "form"), APPENDING)
def test_a_segment_holds_what_was_added(name: str, form: str) -> None:
    opened = opening(name)
    job = Job(opened, form)
    job.add([("a", 0, n, f"t{n}") for n in range(5_000)] + [("b", 0, 1, None)])
    job.snapshot()
    whole = written_bytes(job)
    assert set(ops_in(job)) == {PUT}
    job.add([("a", 0, n, f"t{n}") for n in range(4_990, 5_005)])
    # This comes while a cut is encoded, and is in the next segment.
    job.late([("a", 0, n, f"t{n}") for n in range(5_000, 5_010)] + [("b", 0, 2, None)])
    assert set(ops_in(job)) == {APPEND}
    job.snapshot()
    assert set(ops_in(job)) == {APPEND}
    assert written_bytes(job) < whole / 5
    job.restore(1)
    job.check()
    for member in opened.opened:
        member.release()


@pytest.mark.parametrize("form", STATES)
@pytest.mark.parametrize("name", IN_MEMORY)
def test_what_the_heap_has_appended_is_read_by_every_backend(name: str, form: str) -> None:
    written, other = opening("heap"), opening(name)
    other.storage = written.storage
    job = Job(written, form)
    for start in range(0, 400, 100):
        numbers = range(start, start + 120)
        job.add([(key, job.panes[-1], n, f"t{n}") for key in ("a", "b") for n in numbers])
        job.drop(job.panes[0])
        job.snapshot()
    other.attempt, other.lineages = written.attempt, written.lineages
    job.opened = other
    job.restore(2)
    job.check()
    job.add([("a", job.panes[-1], n, None) for n in range(300, 500)])
    job.snapshot()
    job.compact()
    job.restore(3)
    job.check()
    for member in (*written.opened, *other.opened):
        member.release()


def test_lists_that_do_not_only_grow_are_put_as_a_whole() -> None:
    """A set beside the last list of a column: a row that appends could not say both."""
    schema = to_schema("v long, path array<string>")
    mixed = aggregation_of({"n": ms.count_distinct("v"), "p": ms.last("path")}, schema)
    alone = aggregation_of({"n": ms.count_distinct("v"), "p": ms.last("v")}, schema)

    def found(aggregation: Any) -> bool:
        grow = [isinstance(accumulating(a), DistinctValues) for a in aggregation.accumulators]
        return may_append(aggregation.state().value.arrow, grow)

    assert found(alone)
    assert not found(mixed)


# ---------------------------------------------------------------- planted bugs


@mutation
def what_an_epoch_that_was_given_up_added_is_lost() -> Iterator[None]:
    """What is added later is taken for stored, together with what nobody has encoded."""
    right = SetLane.put_merged

    def forgetful(self: Any, slots: Any, column: Any) -> Any:
        found = right(self, slots, column)
        self._values["stored"][slots] = np.minimum(
            self._values["stored"][slots] + 1, self._values["count"][slots]
        )
        return found

    with patch.object(SetLane, "put_merged", forgetful):
        yield


@mutation
def what_is_appended_replaces_what_was_there() -> Iterator[None]:
    right = SetLane.apply

    def replacing(self: Any, slots: Any, field: Any, is_put: Any) -> None:
        right(self, slots, field, np.ones(len(slots), np.bool_))

    with patch.object(SetLane, "apply", replacing):
        yield


@mutation
def of_rows_that_append_a_merge_keeps_the_last() -> Iterator[None]:
    def last_alone(table: Any) -> Any:
        kept = np.flatnonzero(merge._are_last(table))
        return table.take(kept), kept

    with patch.object(merge, "joined_rows", last_alone):
        yield


@mutation
def a_pane_that_comes_again_appends_to_the_one_that_was_dropped() -> Iterator[None]:
    right = SetLane.take

    def appending(self: Any, slots: Any) -> Any:
        some, _ = right(self, slots)
        some["stored"] = np.minimum(np.maximum(some["stored"], 1), some["count"])
        return some, None

    with patch.object(SetLane, "take", appending):
        yield


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_bug_planted_in_sets_is_caught(name: str) -> None:
    def check(seed: int) -> None:
        trial(opening("heap"), "panes", seed)

    with MUTATIONS[name]():
        assert is_noticed(check, 20), f"no seed notices that {name}"
