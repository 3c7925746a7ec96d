"""Every workload of the benchmark computes what it says, and a wrong result is noticed."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.bench.collecting import Counting, Timing
from mainstay.bench.orders import SCHEMA, orders
from mainstay.bench.progress import SplitProgress
from mainstay.bench.totals import TOTALS_SCHEMA, RunningTotal, RunningTotals
from mainstay.bench.workloads import Stamped, percentiles_ms
from mainstay.connectors import Generate, Memory
from mainstay.connectors.generators import Share
from mainstay.runtime.connector import SinkContext
from mainstay.testing.run import run

CONTEXT = SinkContext("out", subtask=1, attempt=1, lineage="bench")


def few_orders(first: int, count: int) -> pa.RecordBatch:
    """Orders of seven customers, so that a batch holds several of each."""
    batch = orders(first, count)
    keys = pa.array(batch.column(0).to_numpy() % 7)
    return pa.record_batch([keys, batch.column(1)], names=batch.schema.names)


def output(function: Any, method: str) -> Counter[Any]:
    def build(env: ms.Environment) -> None:
        source = env.source(Generate(SCHEMA, few_orders, end=500, batch_rows=64), uid="orders")
        totals = getattr(source.key_by("key"), method)(function, TOTALS_SCHEMA, uid="totals")
        totals.sink(Memory(), uid="out")

    return Counter(run(build, parallelism=2, seed=3).output("out"))


def test_totals_by_batch_have_a_row_for_every_order_and_end_with_the_same_totals() -> None:
    by_row, by_batch = output(RunningTotal(), "process"), output(RunningTotals(), "process_batches")
    assert by_row.total() == by_batch.total() == 500
    for rows in (by_row, by_batch):
        last = {key: max(total for k, total in rows if k == key) for key in range(7)}
        batch = few_orders(0, 500).to_pydict()
        expected: Counter[int] = Counter()
        for key, amount in zip(*batch.values(), strict=True):
            expected[key] += amount
        assert last == dict(expected)


def test_the_running_totals_of_a_batch_are_those_of_a_loop() -> None:
    class Grouped:
        keys = (4, 9)
        batch = pa.record_batch({"key": [4, 4, 9, 9, 9], "amount": [1, 2, 3, 4, 5]})
        offsets = np.array([0, 2, 5])
        counts = np.array([2, 3])

    class State:
        put: tuple[Any, Any] = ((), ())

        def get_many(self, keys: Any, default: int) -> list[int]:
            return [default, 100]

        def put_many(self, keys: Any, totals: Any) -> None:
            self.put = (keys, totals.tolist())

    function = RunningTotals()
    state = State()
    vars(function)["total"] = state
    found = function.process(Grouped(), None)
    assert found.to_pydict() == {"key": [4, 4, 9, 9, 9], "total": [1, 3, 103, 107, 112]}
    assert state.put == ((4, 9), [3, 112])


def test_a_handle_that_is_committed_twice_is_counted_once() -> None:
    sink = Counting()
    writer = sink.open(CONTEXT)
    writer.write(orders(0, 30))
    first = writer.prepare(1)
    writer.write(orders(0, 12))
    second = writer.prepare(2)
    assert first is not None
    assert second is not None
    sink.commit_epoch(1, [first])
    sink.commit_epoch(2, [first, second])
    assert sink.last_epoch == 2
    assert (sink.rows_until(1), sink.rows_until(2)) == (30, 42)


def test_the_age_of_every_row_is_kept_by_epoch() -> None:
    sink = Timing()
    writer = sink.open(CONTEXT)
    for epoch, age_s in ((1, 10), (2, 20)):
        stamp = pa.array([time.time_ns() - age_s * 10**9] * 3)
        writer.write(pa.record_batch({"made_ns": stamp, "due_ns": stamp}))
        handle = writer.prepare(epoch)
        assert handle is not None
        sink.commit_epoch(epoch, [handle])
    ages = sink.ages_us(1, 2)
    assert ages.shape == (2, 3)
    assert ((ages >= 20e6) & (ages < 30e6)).all()
    assert sink.ages_us(0, 2).shape == (2, 6)
    assert sink.ages_us(2, 2).shape == (2, 0)


def test_orders_that_have_come_due_since_the_last_poll_have_waited() -> None:
    batch = Stamped(orders, records_per_s=1000)(0, 4).to_pydict()
    assert len(set(batch["made_ns"])) == 1
    waited = [made - due for made, due in zip(batch["made_ns"], batch["due_ns"], strict=True)]
    assert waited == [3_000_000, 2_000_000, 1_000_000, 0]


def test_what_a_split_has_read_is_its_runs_up_to_its_rows() -> None:
    split = SplitProgress(Share(number=1, splits=2, run=10, start=0), rows=25)
    assert list(split.ranges()) == [(10, 10), (30, 10), (50, 5)]


def test_percentiles_are_named_as_the_report_names_them() -> None:
    assert percentiles_ms(np.arange(1001)) == pytest.approx({"p50": 500, "p99": 990, "p99.9": 999})
