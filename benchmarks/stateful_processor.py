"""Rows a second through PySpark's own functions on one worker, beside a ``KeyedProcess``.

The processor keeps a running total in a value state and yields a row for each call. Rows of a key
come in runs, so that a call has 1, 5 or 50 of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.record_path import EveryRow
from benchmarks.report import Size, Table, count, median
from mainstay.snapshot.object_storage import open_storage

ROWS = 200_000
KEYS = 10_000
RUNS = (1, 5, 50)
SCHEMA = "key long, total long"
UID = "totals"


class RowTotals(StatefulProcessor):
    """A total for each call, of rows."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
        total = self.total.get()[0] if self.total.exists() else 0
        for row in rows:
            total += row.amount
        self.total.update((total,))
        yield Row(key=key[0], total=total)


class PandasTotals(RowTotals):
    """The same of DataFrames."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
        total = self.total.get()[0] if self.total.exists() else 0
        for frame in rows:
            total += int(frame["amount"].sum())
        self.total.update((total,))
        yield pd.DataFrame({"key": [key[0]], "total": [total]})


def with_group_state(key: Any, frames: Any, state: Any) -> Any:
    """The same with a ``GroupState``."""
    total = state.get[0] if state.exists else 0
    for frame in frames:
        total += int(frame["amount"].sum())
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


def measure(size: Size) -> list[Table]:
    table = Table(
        "PySpark's own stateful functions",
        ["function", *(f"rows/s, {run} of a key in a call" for run in RUNS)],
        f"One worker, {KEYS:,} keys, a value state of one column.",
    )
    ways: dict[str, tuple[Build, float]] = {
        "process (KeyedProcess, called for each row)": (_keyed, 1.0),
        "transform_with_state, rows": (in_rows, 1.0),
        "transform_with_state, pandas": (in_pandas, 0.1),
        "apply_in_pandas_with_state": (_group_state, 0.1),
    }
    for name, (build, share) in ways.items():
        table.add(name, *(count(rate(build, run, size, share)) for run in RUNS))
    return [table]


Build = Callable[[Any, Counting], None]


def _keyed(keyed: Any, sink: Counting) -> None:
    keyed.process(EveryRow(), SCHEMA, uid=UID).sink(sink, uid="out")


def in_rows(keyed: Any, sink: Counting) -> None:
    keyed.transform_with_state(RowTotals(), SCHEMA, uid=UID).sink(sink, uid="out")


def in_pandas(keyed: Any, sink: Counting) -> None:
    out = keyed.transform_with_state(PandasTotals(), SCHEMA, in_pandas=True, uid=UID)
    out.sink(sink, uid="out")


def _group_state(keyed: Any, sink: Counting) -> None:
    out = keyed.apply_in_pandas_with_state(with_group_state, SCHEMA, "n long", uid=UID)
    out.sink(sink, uid="out")


def rate(build: Build, run: int, size: Size, share: float) -> float:
    rows = amount(run, size, share)
    return median([_once(build, Endless(in_runs(rows, run)), rows) for _ in range(size.repeats)])


def amount(run: int, size: Size, share: float) -> int:
    """How many rows are measured. A call with a DataFrame costs as much as a hundred with rows:
    fewer of them say as much."""
    return int(size.of(ROWS) * (share if run < RUNS[-1] else 1.0))


def in_runs(rows: int, run: int) -> pa.RecordBatch:
    """Rows whose keys come in runs; in another order than that of the keys."""
    runs = np.random.default_rng(7).integers(0, KEYS, -(-rows // run))
    keys = np.repeat(runs, run)[:rows]
    amounts = np.arange(rows, dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(keys), "amount": pa.array(amounts)})


def _once(build: Build, source: Endless, rows: int) -> float:
    with worker_with(build, source) as worker:
        # The first rows warm it up: slices grow to their size, and queues fill.
        worker.run_until(lambda: worker.rows_taken(UID) >= rows)
        taken, began = worker.rows_taken(UID), time.perf_counter()
        worker.run_until(lambda: worker.rows_taken(UID) - taken >= 2 * rows)
        return (worker.rows_taken(UID) - taken) / (time.perf_counter() - began)


@contextmanager
def worker_with(build: Build, source: Endless) -> Iterator[BenchWorker]:
    env = ms.Environment(parallelism=1)
    build(env.source(source, uid=SOURCE_UID).key_by("key"), Counting())
    with tempfile.TemporaryDirectory() as directory:
        worker = BenchWorker(env.plan(), open_storage(directory))
        yield worker
        worker.close()
