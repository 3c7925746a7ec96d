"""Rows a second through ``aggregate``, beside what pyarrow does with the same rows in the same run.

The worker has everything a real one has; ``pyarrow`` is ``Table.group_by`` over batches of a
million rows, on one thread, with nothing kept between batches. Then the parts of the path, each by
itself, in nanoseconds for each row that goes in.
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
from mainstay.runtime.operators.gathering import GATHERED_ROWS
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.worker.partition import ByKeyGroup
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.grouping import Grouper
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

ROWS = 8_000_000
BATCH = 1_000_000
KEYS = (100_000, 1_000_000)
AGGREGATES = {"total": Aggregate("sum", "amount"), "n": Aggregate("count")}


def measure(size: Size) -> list[Table]:
    return [_rates(size), _parts(size)]


def _rates(size: Size) -> Table:
    table = Table(
        "The path of aggregates",
        ["keys and way", "rows/s", "of pyarrow"],
        "sum and count by a long, one worker. Spread keys lie far apart, so that they are hashed.",
    )
    for keys in KEYS:
        orders = _orders(size.of(ROWS), size.of(keys))
        spread = _orders(size.of(ROWS), size.of(keys), apart=0x9E3779B97F)
        bare = median([_pyarrow(orders, size) for _ in range(size.repeats)])
        table.add(f"{keys:,}: pyarrow's group_by", count(bare), "1.00")
        for name, rows in (("aggregate", orders), ("aggregate, spread keys", spread)):
            rate = median([_worker(rows) for _ in range(size.repeats)])
            table.add(f"{keys:,}: {name}", count(rate), f"{rate / bare:.2f}")
    return table


def _orders(rows: int, keys: int, apart: int = 1) -> pa.RecordBatch:
    chosen = np.random.default_rng(7).integers(0, keys, rows) * apart
    amounts = np.arange(rows, dtype=np.int64) % 1000
    return pa.record_batch({"key": pa.array(chosen), "amount": pa.array(amounts)})


def _pyarrow(orders: pa.RecordBatch, size: Size) -> float:
    whole = pa.Table.from_batches([orders])
    began = time.perf_counter()
    for start in range(0, orders.num_rows, size.of(BATCH)):
        some = whole.slice(start, size.of(BATCH))
        some.group_by("key", use_threads=False).aggregate([("amount", "sum"), ("amount", "count")])
    return orders.num_rows / (time.perf_counter() - began)


def _worker(orders: pa.RecordBatch) -> float:
    source, rows = Endless(orders), orders.num_rows
    env = ms.Environment(parallelism=1)
    keyed = env.source(source, uid=SOURCE_UID).key_by("key")
    totals = keyed.aggregate(total=ms.sum("amount"), n=ms.count(), uid="totals")
    totals.sink(Counting(), uid="out")
    with tempfile.TemporaryDirectory() as directory:
        worker = BenchWorker(env.plan(), open_storage(directory))
        # The first rows warm it up: slices grow to their size, and the keys become known.
        worker.run_until(lambda: source.given >= rows // 4)
        before, began = source.given, time.perf_counter()
        worker.run_until(lambda: source.given - before >= rows)
        elapsed_s, given = time.perf_counter() - began, source.given - before
        worker.close()
    return given / elapsed_s


def _parts(size: Size) -> Table:
    table = Table(
        "The parts of the path of aggregates",
        ["part", *(f"{keys:,} keys, ns" for keys in KEYS)],
        f"For each of the {GATHERED_ROWS:,} rows that are gathered, not for each key.",
    )
    costs = [_part_costs(size, size.of(keys)) for keys in KEYS]
    for name in costs[0]:
        table.add(name, *(f"{cost[name]:.1f}" for cost in costs))
    return table


def _part_costs(size: Size, keys: int) -> dict[str, float]:
    rows = size.of(GATHERED_ROWS)
    orders = _orders(rows, keys)
    spread = _orders(rows, keys, apart=0x9E3779B97F)
    aggregation = aggregation_of(AGGREGATES, orders.schema)
    parts = [accumulating(each) for each in aggregation.accumulators]
    grouper, key = Grouper(), ValueType.of("long")
    column = orders.column("key")
    groups = grouper.group(column)
    distinct = column.take(pa.array(groups.rows))
    partials = [part.first_partials(orders) for part in parts]
    combined = [part.combine(c, groups) for part, c in zip(parts, partials, strict=True)]
    dense, hashed = (HeapColumns(aggregation.state(), StoredKey.of(key)) for _ in range(2))
    far = spread.column("key").take(pa.array(groups.rows))
    partitioner = ByKeyGroup(KeySpec((0,), key, ("key",)), 2, 128)
    ways: dict[str, Callable[[], Any]] = {
        "group": lambda: grouper.group(column),
        "group, spread keys": lambda: grouper.group(spread.column("key")),
        "combine": lambda: [p.combine(c, groups) for p, c in zip(parts, partials, strict=True)],
        "fold into state": lambda: dense.fold(distinct, combined),
        "fold into state, spread keys": lambda: hashed.fold(far, combined),
        "hash and split rows in two (where there are more workers)": lambda: partitioner.split(
            orders
        ),
    }
    return {name: _nanoseconds(way, size, rows) for name, way in ways.items()}


def _nanoseconds(way: Callable[[], Any], size: Size, rows: int) -> float:
    times = []
    way()
    for _ in range(4 * size.repeats):
        began = time.perf_counter()
        way()
        times.append(time.perf_counter() - began)
    return median(times) / rows * 1e9
