"""What a snapshot costs the running job.

Two claims are measured. The synchronous part, during which the task processes nothing, does not
grow with the state. And the asynchronous part runs beside the job: the longest gap of the
worker's loop does not grow with the state either.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.report import Size, Table, count, median, millis, percentile
from mainstay.runtime.messages import Figures
from mainstay.snapshot.object_storage import open_storage

CASES = [(10_000, 10_000), (100_000, 100_000), (1_000_000, 1_000_000), (1_000_000, 10_000)]
"""Keys in the state, and keys changed in each epoch."""


class Total(ms.KeyedProcess):
    """A running total that emits nothing."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        self.total.update((self.total.get() or 0) + row.amount)


@dataclass(slots=True)
class Case:
    """What was measured of one size of state."""

    keys: int
    changed: int
    sync_s: list[float] = field(default_factory=list)
    async_s: list[float] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    idle_gaps: array[float] = field(default_factory=lambda: array("d"))
    busy_gaps: array[float] = field(default_factory=lambda: array("d"))
    longest_gaps: list[float] = field(default_factory=list)
    longest_idle_gaps: list[float] = field(default_factory=list)

    def add(self, figures: Sequence[Figures], busy: array[float], idle: array[float]) -> None:
        # The task with the state is the one that wrote bytes.
        stateful = max(figures, key=lambda each: each.size_bytes)
        self.sync_s.append(stateful.sync_s)
        self.async_s.append(stateful.async_s)
        self.size_bytes.append(stateful.size_bytes)
        self.busy_gaps.extend(busy)
        self.idle_gaps.extend(idle)
        self.longest_gaps.append(max(busy))
        self.longest_idle_gaps.append(max(idle))


def measure(size: Size) -> list[Table]:
    cases = [run_case(size.of(keys), size.of(changed), size) for keys, changed in CASES]
    return [_cost_table(cases), _gap_table(cases)]


def run_case(keys: int, changed: int, size: Size) -> Case:
    """Fill the state, then take epochs in which ``changed`` keys changed, under full load."""
    source = Endless(_orders(keys))
    env = ms.Environment(parallelism=1)
    (
        env.source(source, uid=SOURCE_UID)
        .key_by("key")
        .process(Total(), "key long", uid="totals")
        .sink(Counting(), uid="out")
    )
    case = Case(keys, changed)
    with tempfile.TemporaryDirectory() as directory:
        worker = BenchWorker(env.plan(), open_storage(directory))
        _change(worker, source, keys)
        _take_epoch(worker)
        for _ in range(size.repeats):
            _measure_epoch(worker, source, case, 1.0 if size.divisor < 1000 else 0.01)
        worker.close()
    return case


def _orders(keys: int) -> pa.RecordBatch:
    # In an order that has nothing to do with that of the keys, as orders come.
    order = np.random.default_rng(7).permutation(keys)
    amounts = np.arange(keys, dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(order, pa.int64()), "amount": pa.array(amounts)})


def _measure_epoch(worker: BenchWorker, source: Endless, case: Case, quiet_s: float) -> None:
    _change(worker, source, case.changed)
    worker.run_for(quiet_s)
    idle = worker.gaps
    worker.trigger()
    worker.run_until(lambda: worker.is_acknowledged)
    busy = worker.gaps
    figures = worker.complete()
    # What follows the acknowledgement belongs to the snapshot: the segment is let go.
    worker.run_for(quiet_s / 2)
    busy.extend(worker.gaps)
    case.add(figures, busy, idle)


def _change(worker: BenchWorker, source: Endless, keys: int) -> None:
    """Let ``keys`` keys change, and only those until the next call."""
    source.focus = keys
    until = source.given + keys + 200_000
    worker.run_until(lambda: source.given >= until)


def _take_epoch(worker: BenchWorker) -> None:
    worker.trigger()
    worker.run_until(lambda: worker.is_acknowledged)
    worker.complete()


def _cost_table(cases: Sequence[Case]) -> Table:
    table = Table(
        "Cost of a snapshot",
        ["keys", "changed", "sync median (µs)", "sync max (µs)", "async (ms)", "bytes"],
        "One task with a ValueState of long, under full load. The synchronous part is what the "
        "task stops for; it must not grow with the state.",
    )
    for case in cases:
        table.add(
            count(case.keys),
            count(case.changed),
            count(median(case.sync_s) * 1e6),
            count(max(case.sync_s) * 1e6),
            millis(median(case.async_s)),
            count(median(case.size_bytes)),
        )
    return table


def _gap_table(cases: Sequence[Case]) -> Table:
    table = Table(
        "Gaps of the worker's loop",
        ["keys", "changed", "during", "p50 (ms)", "p99 (ms)", "longest (ms)", "longest ever (ms)"],
        "From the beginning of one pass of the loop to the next, without a snapshot under way and "
        "with one. *longest* is the median over epochs of each epoch's longest gap.",
    )
    for case in cases:
        for during, gaps, longest in (
            ("no snapshot", case.idle_gaps, case.longest_idle_gaps),
            ("snapshot", case.busy_gaps, case.longest_gaps),
        ):
            table.add(
                count(case.keys),
                count(case.changed),
                during,
                millis(percentile(gaps, 50)),
                millis(percentile(gaps, 99)),
                millis(median(longest)),
                millis(max(gaps)),
            )
    return table
