"""How many rows the tasks that are built from a plan take at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.connector import Split
from mainstay.runtime.messages import AssignSplits, Attempt
from mainstay.runtime.operators.rows import ROW_FUNCTION_ROWS
from mainstay.runtime.spec import Tuning

TOTAL = 20_000
SCHEMA = "k string, n long"
Build = Callable[[Any, "Calls"], Any]
Start = Callable[..., Any]


class Calls:
    """Counts the rows that a function under test was called with."""

    def __init__(self) -> None:
        self.rows = 0
        self.batches: list[int] = []

    def row(self, row: Any) -> Any:
        self.rows += 1
        return row

    def keep(self, row: Any) -> bool:
        self.rows += 1
        return True

    def key(self, row: Any) -> str:
        self.rows += 1
        return "a"

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.batches.append(batch.num_rows)
        return batch


class Each(ms.Process):
    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def process(self, row: Any, ctx: Any) -> Any:
        return self.calls.row(row)


class EachOfKey(ms.KeyedProcess):
    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def process(self, row: Any, ctx: Any) -> Any:
        return self.calls.row(row)


class EachOfTwo(ms.CoKeyedProcess):
    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def process_left(self, row: Any, ctx: Any) -> Any:
        return self.calls.row(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        return self.calls.row(row)


class Whole(ms.KeyedBatchProcess):
    def process(self, batch: Any, ctx: Any) -> Any:
        return None


def connected(rows: Any, calls: Calls) -> Any:
    return rows.key_by("k").connect(rows.broadcast()).process(EachOfTwo(calls), SCHEMA)


ROW_FUNCTIONS: dict[str, Build] = {
    "map": lambda rows, calls: rows.map(calls.row, SCHEMA),
    "flat_map": lambda rows, calls: rows.flat_map(lambda row: [calls.row(row)], SCHEMA),
    "filter": lambda rows, calls: rows.filter(calls.keep),
    "process": lambda rows, calls: rows.process(Each(calls), SCHEMA),
    "key function": lambda rows, calls: rows.key_by(calls.key, "string").process_batches(
        Whole(), SCHEMA
    ),
    "keyed process": lambda rows, calls: rows.key_by("k").process(EachOfKey(calls), SCHEMA),
    "connect": connected,
}


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def largest(world: Any, start_worker: Start, calls: Calls) -> Callable[..., int]:
    """Runs a job over many rows in no time at all; the most rows of a step of its one worker."""

    def run(build: Build, **more: Any) -> int:
        env = ms.Environment(parallelism=1)
        rows = env.source(Rows(SCHEMA, [("a", n) for n in range(TOTAL)]), uid="rows")
        build(rows, calls).sink(Memory(), uid="out")
        tuning = Tuning(least_window_bytes=1 << 22)  # nobody is slow here
        worker = start_worker(world, env.plan(), **{"tuning": tuning, **more}).worker
        split = Split(f"rows-0-{TOTAL}", [0, TOTAL])
        worker.receive(AssignSplits(Attempt(1), "rows", 0, (split,), True))
        steps = [0]
        while worker.step():
            steps.append(calls.rows)
        return max(after - before for before, after in pairwise(steps))

    return run


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_a_function_of_a_row_gets_no_more_rows_at_a_time_than_its_bound(
    largest: Callable[..., int], calls: Calls, name: str
) -> None:
    assert largest(ROW_FUNCTIONS[name]) == ROW_FUNCTION_ROWS == 2048
    assert calls.rows == TOTAL * (2 if name == "connect" else 1), "no row is left out"


def test_a_function_of_batches_gets_larger_ones(largest: Callable[..., int], calls: Calls) -> None:
    largest(lambda rows, calls: rows.map_batches(calls.batch, SCHEMA))
    assert sum(calls.batches) == TOTAL
    assert max(calls.batches) > ROW_FUNCTION_ROWS


def test_a_row_function_anywhere_in_a_chain_bounds_all_of_it(
    largest: Callable[..., int], calls: Calls
) -> None:
    largest(lambda rows, calls: rows.map_batches(calls.batch, SCHEMA).filter(calls.keep))
    assert sum(calls.batches) == TOTAL
    assert max(calls.batches) == ROW_FUNCTION_ROWS


def test_a_smaller_bound_of_the_tuning_goes_before_that_of_a_row_function(
    largest: Callable[..., int],
) -> None:
    tuning = Tuning(max_slice_rows=100)
    assert largest(ROW_FUNCTIONS["map"], tuning=tuning) == 100
