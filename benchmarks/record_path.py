"""Rows a second through one worker, beside a bare loop with a dictionary in the same run.

The worker has everything a real one has: source, partitioning by key, channels with credit, the
operator, a sink. The bare loop turns the same batches into rows and back, and nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.report import Size, Table, count, median
from mainstay.snapshot.object_storage import open_storage

ROWS = 400_000
KEYS = 10_000
BATCH = 8192
SCHEMA = "key long, total long"


class EveryRow(ms.KeyedProcess):
    """A running total for each row."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        total = (self.total.get() or 0) + row.amount
        self.total.update(total)
        yield ctx.key, total


class EveryBatch(ms.KeyedBatchProcess):
    """A total for each key of a batch."""

    total = ms.ValueState("long")

    def process(self, grouped: Any, ctx: Any) -> pa.RecordBatch:
        amounts = grouped.batch.column("amount").to_numpy()
        added = np.add.reduceat(amounts, grouped.offsets[:-1]).tolist()
        before = self.total.get_many(grouped.keys)
        totals = [(old or 0) + new for old, new in zip(before, added, strict=True)]
        self.total.put_many(grouped.keys, totals)
        keys = pa.array(grouped.keys, pa.int64())
        return pa.record_batch({"key": keys, "total": pa.array(totals, pa.int64())})


def measure(size: Size) -> list[Table]:
    table = Table(
        "The path of a record",
        ["job", "rows/s", "of the bare loop"],
        f"One worker, {KEYS:,} keys. The bare loop turns batches into tuples, adds in a dictionary "
        "and builds batches again.",
    )
    ways: dict[str, Callable[[Endless, int], float]] = {
        "bare loop with a dict": _bare,
        "process (KeyedProcess, a row out for each row in)": _through(_every_row),
        "process_batches (KeyedBatchProcess)": _through(_every_batch),
        "map": _through(_map),
    }
    rows = size.of(ROWS)
    rates = {
        name: median([way(Endless(_orders(rows)), rows) for _ in range(size.repeats)])
        for name, way in ways.items()
    }
    bare = next(iter(rates.values()))
    for name, rate in rates.items():
        table.add(name, count(rate), f"{rate / bare:.2f}")
    return [table]


def _orders(rows: int) -> pa.RecordBatch:
    keys = np.random.default_rng(7).integers(0, KEYS, rows)
    amounts = np.arange(rows, dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(keys), "amount": pa.array(amounts)})


def _bare(source: Endless, rows: int) -> float:
    totals: dict[int, int] = {}
    began = time.perf_counter()
    for start in range(0, rows, BATCH):
        batch = source.batch.slice(start, BATCH)
        columns = [column.to_pylist() for column in batch.columns]
        out = []
        for key, amount in zip(*columns, strict=True):
            total = totals[key] = totals.get(key, 0) + amount
            out.append((key, total))
        keys, sums = zip(*out, strict=True)
        pa.record_batch({"key": pa.array(keys), "total": pa.array(sums)})
    return rows / (time.perf_counter() - began)


def _every_row(env: ms.Environment, source: Endless, sink: Counting) -> None:
    stream = env.source(source, uid=SOURCE_UID).key_by("key")
    stream.process(EveryRow(), SCHEMA, uid="totals").sink(sink, uid="out")


def _every_batch(env: ms.Environment, source: Endless, sink: Counting) -> None:
    stream = env.source(source, uid=SOURCE_UID).key_by("key")
    stream.process_batches(EveryBatch(), SCHEMA, uid="totals").sink(sink, uid="out")


def _map(env: ms.Environment, source: Endless, sink: Counting) -> None:
    stream = env.source(source, uid=SOURCE_UID)
    stream.map(lambda row: (row.key, row.amount + 1), SCHEMA, uid="map").sink(sink, uid="out")


Build = Callable[[ms.Environment, Endless, Counting], None]


def _through(build: Build) -> Callable[[Endless, int], float]:
    def rate(source: Endless, rows: int) -> float:
        env = ms.Environment(parallelism=1)
        build(env, source, Counting())
        with tempfile.TemporaryDirectory() as directory:
            worker = BenchWorker(env.plan(), open_storage(directory))
            # The first rows warm it up: slices grow to their size, and queues fill, which then
            # hold as much at the end as they did at the beginning.
            worker.run_until(lambda: source.given >= rows)
            read, began = source.given, time.perf_counter()
            worker.run_until(lambda: source.given - read >= 4 * rows)
            elapsed_s, given = time.perf_counter() - began, source.given - read
            worker.close()
        return given / elapsed_s

    return rate
