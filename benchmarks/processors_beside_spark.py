"""The processors of ``stateful_processor`` in Spark and on Mainstay, one after the other.

Spark has one partition of a local session, and RocksDB; Mainstay one worker.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from benchmarks import stateful_processor as ours
from benchmarks.bench_worker import Endless
from benchmarks.report import Size, Table, count

CALLS_PER_BATCH = 2_000
"""How many calls a micro-batch has; they are what it spends its time on."""
BATCHES = 4
"""How many micro-batches are measured; the one before them warms the query up."""
SMALL_BATCH_ROWS = 100
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def measure(size: Size) -> list[Table]:
    table = Table(
        "Beside Spark",
        [
            *("processor", "rows of a key in a call", "Mainstay, rows/s", "Spark, rows/s", "times"),
            *("Mainstay, µs of CPU a row", "Spark, µs of CPU a row", "times less"),
            *("a slice, ms (p50, p99)", "a micro-batch of 100 rows, ms (p50, p99)"),
        ],
        "One worker, and one partition of a local Spark session with RocksDB; 10,000 keys. A row "
        "waits for its slice or its micro-batch, so how long these take is the least it waits.",
    )
    variants: dict[str, tuple[ours.Build, float, Any, bool]] = {
        "rows": (ours.in_rows, 1.0, ours.RowTotals(), False),
        "pandas": (ours.in_pandas, 0.1, ours.PandasTotals(), True),
    }
    with session(ours) as spark:
        for name, (build, share, processor, in_pandas) in variants.items():
            for run in ours.RUNS:
                here = on_mainstay(build, run, ours.amount(run, size, share), size.repeats)
                rows = CALLS_PER_BATCH * run
                there = in_spark(spark, processor, rows, run, in_pandas=in_pandas)
                small = in_spark(spark, processor, SMALL_BATCH_ROWS, run, in_pandas=in_pandas)
                table.add(name, run, *_cells(here, there, small))
    return [table]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a system: rows a second, what a row takes of the processor, and how long its slices or
    its micro-batches took."""

    rows_per_s: float
    cpu_us: float
    took_s: Sequence[float]


def _cells(here: Figures, there: Figures, small: Figures) -> list[str]:
    return [
        *(count(here.rows_per_s), count(there.rows_per_s)),
        f"{here.rows_per_s / there.rows_per_s:,.1f}",
        *(f"{here.cpu_us:,.1f}", f"{there.cpu_us:,.1f}", f"{there.cpu_us / here.cpu_us:,.1f}"),
        *(_ms(here.took_s), _ms(small.took_s)),
    ]


def _ms(seconds: Sequence[float]) -> str:
    p50, p99 = np.percentile(np.asarray(seconds) * 1e3, [50, 99])
    return f"{p50:,.1f}, {p99:,.1f}"


def on_mainstay(build: ours.Build, run: int, rows: int, repeats: int) -> Figures:
    """The median of some runs; slices are the passes of the worker that lasted."""
    found = sorted([_once(build, run, rows) for _ in range(repeats)], key=lambda it: it.rows_per_s)
    return found[len(found) // 2]


def _once(build: ours.Build, run: int, rows: int) -> Figures:
    source = Endless(ours.in_runs(rows, run))
    with ours.worker_with(build, source) as worker:
        worker.run_until(lambda: worker.rows_taken(ours.UID) >= rows)
        before = worker.rows_taken(ours.UID)
        began, cpu = time.perf_counter(), time.process_time()
        worker.run_until(lambda: worker.rows_taken(ours.UID) - before >= 2 * rows)
        given = worker.rows_taken(ours.UID) - before
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        return Figures(given / took_s, cpu_s / given * 1e6, list(worker.gaps))


@contextmanager
def session(processors: Any, cores: int = 1) -> Iterator[SparkSession]:
    """A session with one core or more, whose workers are sent the module of the processors."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    cloudpickle.register_pickle_by_value(processors)
    yield spark
    cloudpickle.unregister_pickle_by_value(processors)
    spark.stop()


def in_spark(
    spark: SparkSession, processor: Any, rows: int, run: int, *, in_pandas: bool
) -> Figures:
    """Micro-batches of so many rows, the median of them; the first one warms the query up."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    numbers = source.option("numPartitions", 1).load()
    records = numbers.selectExpr(
        f"pmod(xxhash64(value div {run}), {ours.KEYS}) as key", "value % 1000 as amount"
    )
    grouped = records.groupBy("key")
    method = grouped.transformWithStateInPandas if in_pandas else grouped.transformWithState
    made = method(processor, "key long, total long", "Update", "None")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        writer = made.writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", directory).start()
        _await(query, 1)
        cpu_s, before = _cpu_s(), len(_done(query))
        _await(query, before + BATCHES)
        cpu_s, batches = _cpu_s() - cpu_s, len(_done(query)) - before
        query.stop()
        took_s = _done(query)[1:]
    median_s = statistics.median(took_s)
    return Figures(rows / median_s, cpu_s / batches / rows * 1e6, took_s)


def _await(query: Any, batches: int) -> None:
    while len(_done(query)) < batches:
        if query.awaitTermination(0.05):
            raise RuntimeError("the query ended by itself")


def _done(query: Any) -> list[float]:
    return [
        progress["durationMs"]["triggerExecution"] / 1e3
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def _cpu_s() -> float:
    """What the JVM and the Python workers have taken of the processor."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total
