"""How long a record takes through a row processor with a value state, in Spark and on Mainstay.

Records are due at a steady rate. The age of a result is counted from the moment its record was due:
on Mainstay until the worker hands it to the sink, in Spark until the driver has the micro-batch.
Both run one after the other in the same session, each alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import mainstay as ms
from benchmarks import workloads
from benchmarks.peers import spark as peer
from benchmarks.processors_beside_spark import session
from benchmarks.report import Size, Table
from mainstay.connectors import Source
from mainstay.runtime.connector import Json, Polled, Split, SplitReader
from mainstay.schema import to_schema

RATES_PER_S = (200, 1_000)
SECONDS = 60
START_S = 10.0
"""How long after the start the first record is due, so that starting is no backlog."""
WARM_UP_S = 5.0
EVERY = "1s"
SCHEMA = "key long, amount long, created double"
OUTPUT = "key long, total long, created double"


def measure(size: Size) -> list[Table]:
    table = Table(
        "From a record to its result",
        ["records/s", "Mainstay, ms (p50, p99)", "Spark, ms (p50, p99)", "times (p50, p99)"],
        "A row processor with a value state, one worker and one partition of the same local "
        "session, one after the other. Counted from when a record was due; epochs every "
        f"{EVERY}, micro-batches one after the other, with RocksDB.",
    )
    seconds = max(10, size.of(SECONDS))
    with session(peer, cores=2) as spark:
        for rate in RATES_PER_S:
            here, there = on_mainstay(spark, rate, seconds), in_spark(spark, rate, seconds)
            shown = [f"{each[0]:,.1f}, {each[1]:,.1f}" for each in (here, there)]
            table.add(rate, *shown, f"{there[0] / here[0]:,.0f}, {there[1] / here[1]:,.0f}")
    return [table]


def _percentiles(ages_s: Sequence[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(np.asarray(ages_s) * 1e3, [50, 99])
    return float(p50), float(p99)


# ---------------------------------------------------------------- Mainstay


class Due(Source):
    """What is due at a steady rate, from a given moment on; a record has the time it was due."""

    schema = to_schema(SCHEMA)
    bounded = False
    replan_s = None

    def __init__(self, rate_per_s: float, began: float) -> None:
        self.rate_per_s, self.began = rate_per_s, began

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [] if seen else [Split("all", {})]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        return _DueReader(self, offset or 0)


class _DueReader(SplitReader):
    def __init__(self, source: Due, first: int) -> None:
        self._source, self._next = source, first

    def poll(self, max_rows: int) -> Polled:
        rate, began = self._source.rate_per_s, self._source.began
        due = int((time.time() - began) * rate) + 1 if time.time() >= began else 0
        first, count = self._next, min(due - self._next, max_rows)
        if count <= 0:
            ready_in_s = max(0.0, began + first / rate - time.time())
            return Polled(None, self._next, ready_in_s=ready_in_s)
        self._next += count
        made = pa.array(began + np.arange(first, self._next) / rate)
        columns = [*workloads.orders(first, count).columns, made]
        return Polled(pa.RecordBatch.from_arrays(columns, schema=Due.schema), self._next)


def on_mainstay(spark: SparkSession, rate: int, seconds: float) -> tuple[float, float]:
    began = time.time() + START_S
    out = ms.connectors.Memory()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        snapshots = ms.Snapshots(directory, every=EVERY)
        env = ms.Environment(spark=spark, parallelism=1, snapshots=snapshots)
        keyed = env.source(Due(rate, began), uid="due").key_by("key")
        totals = keyed.transform_with_state(peer.RowTotals(), OUTPUT, uid="totals")
        totals.map(_aged, "created double, age_s double", uid="ages").sink(out, uid="out")
        job = env.start("latency")
        job.wait(began - time.time() + WARM_UP_S + seconds, progress=False)
        job.stop()
    return _percentiles([age for created, age in out.rows() if created >= began + WARM_UP_S])


def _aged(row: Any) -> tuple[float, float]:
    return row.created, time.time() - row.created


# ---------------------------------------------------------------- Spark


def in_spark(spark: SparkSession, rate: int, seconds: float) -> tuple[float, float]:
    began, ages = time.time() + START_S, peer.Ages()
    spark.dataSource.register(peer.Pace)
    records = spark.readStream.format("pace").option("rate", rate).option("began", began).load()
    totals = records.groupBy("key").transformWithState(peer.RowTotals(), OUTPUT, "Update", "None")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        writer = totals.writeStream.foreachBatch(ages).outputMode("update")
        query = writer.option("checkpointLocation", directory).start()
        query.awaitTermination(began - time.time() + WARM_UP_S + seconds)
        query.stop()
    return _percentiles([age / 1e3 for age in ages.since(began + WARM_UP_S)])
