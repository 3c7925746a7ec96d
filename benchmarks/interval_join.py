"""Rows a second through an interval join, beside what DuckDB does with the same rows.

The job has everything a real one has: workers in processes of their own, a shuffle, event time, and
an epoch each second. Both sides are one source, so that they keep the same pace. DuckDB has all
rows in memory before it begins, and keeps nothing: it is a bound.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from benchmarks.bench_worker import Counting
from benchmarks.report import Size, Table, count, median
from mainstay.bench.running import PROCESSES, SOURCE, environment, observe, start
from mainstay.connectors.generators import Generate

ROWS = 4_000_000
KEYS = 500_000
SECONDS = 8.0
BATCH = 1 << 16
ROWS_PER_S = 1_000_000
"""Of event time."""
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("right", pa.bool_()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def drawn(first: int, rows: int, keys: int) -> pa.RecordBatch:
    """Rows of both sides by turns, whose times rise."""
    numbers = np.arange(first, first + rows)
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    chosen = (mixed >> np.uint64(20)) % np.uint64(keys)
    times = numbers * (1_000_000 // ROWS_PER_S)
    columns = [
        pa.array(chosen.astype(np.int64)),
        pa.array(numbers % 2 == 1),
        pa.array(numbers),
        pa.array(times).cast(SCHEMA.field("at").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def measure(size: Size) -> list[Table]:
    table = Table(
        "An interval join",
        ["how", "rows/s", "of DuckDB"],
        "Rows of both sides within a second of each other, about one match for each left row.",
    )
    bounds = {threads: _duckdb(size, threads) for threads in (1, 2)}
    for threads, rate in bounds.items():
        table.add(f"DuckDB, {threads} threads", count(rate), "1.00")
    for parallelism in (1, 2):
        for how in ("inner", "left"):
            rate = _job(size, parallelism, how)
            of = f"{rate / bounds[parallelism]:.2f}"
            table.add(f"{how}, parallelism {parallelism}", count(rate), of)
    return [table]


def _job(size: Size, parallelism: int, how: Any) -> float:
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        env = environment(directory, parallelism=parallelism, every_s=max(0.1, 1.0 / size.divisor))
        make = partial(drawn, keys=size.of(KEYS))
        source = Generate(SCHEMA, make, splits=parallelism, batch_rows=BATCH)
        both = env.source(source, uid=SOURCE, watermark=ms.Watermark("at", delay="100ms"))
        left, right = (
            both.filter(where).key_by("key") for where in (~ms.col("right"), ms.col("right"))
        )
        joined = left.join(
            right, within=ms.interval("-1s", "0s"), how=how, suffix="_right", uid="join"
        )
        joined.sink(Counting(), uid="out")
        job = start(env, "join", PROCESSES)
        try:
            window = observe(job, directory, SECONDS / size.divisor, warm_up_s=4.0 / size.divisor)
        finally:
            job.cancel()
    return window.records_per_s


def _duckdb(size: Size, threads: int) -> float:
    rows = size.of(ROWS)
    both = drawn(0, rows, size.of(KEYS))
    table = pa.Table.from_batches([both])
    left, right = table.filter(pc.invert(table["right"])), table.filter(table["right"])
    sql = (
        "select count(*), sum(l.n + r.n) from l join r on l.key = r.key and "
        'r."at" - l."at" between interval (-1) seconds and interval 0 seconds'
    )
    rates = []
    for _ in range(size.repeats):
        with duckdb.connect() as database:
            database.execute(f"set threads = {threads}")
            database.register("l", left)
            database.register("r", right)
            began = time.perf_counter()
            database.sql(sql).fetchall()
            rates.append(rows / (time.perf_counter() - began))
    return median(rates)
