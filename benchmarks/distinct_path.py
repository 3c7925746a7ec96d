"""Rows a second folded into ``count_distinct`` and ``max_by``, beside a plain count and sum.

Heap columns alone, without the worker: rows are combined and folded in batches of the size that an
operator gathers. "one key" is a counter of a whole stream, where nearly every value is new; with
many keys each has a few values. "snapshot" is the time to encode everything once.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count, median
from mainstay.runtime.operators.gathering import GATHERED_ROWS
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.grouping import Grouper
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

ROWS = 2_000_000
AGGREGATES = {
    "sum": ms.sum("value"),
    "sum, half of the rows": ms.sum("value", where=ms.col("value") % 2 == 0),
    "max_by": ms.max_by("value", "text"),
    "count_distinct of longs": ms.count_distinct("value"),
    "count_distinct of doubles": ms.count_distinct("real"),
    "count_distinct of texts": ms.count_distinct("text"),
}
SHAPES = {"one key": (1, ROWS), "1,000 keys": (1000, 2000), "100,000 keys": (100_000, 20)}


def measure(size: Size) -> list[Table]:
    table = Table(
        "The path of distinct values",
        ["aggregate", *(f"{shape}, rows/s" for shape in SHAPES), "snapshot of one key, ms"],
        f"{size.of(ROWS):,} rows; each key has up to 2,000,000, 2,000 and 20 distinct values.",
    )
    for name, aggregate in AGGREGATES.items():
        found = [_run(aggregate, size, *shape) for shape in SHAPES.values()]
        table.add(name, *(count(rate) for rate, _ in found), f"{found[0][1] * 1e3:.0f}")
    return [table]


def _run(aggregate: Aggregate, size: Size, keys: int, values: int) -> tuple[float, float]:
    rows = size.of(ROWS)
    random = np.random.default_rng(7)
    numbers = random.integers(0, values, rows)
    whole = pa.record_batch(
        {
            "key": pa.array(random.integers(0, keys, rows)),
            "value": pa.array(numbers * 7919),
            "real": pa.array(numbers / 7),
            "text": pa.array(numbers).cast(pa.string()),
        }
    )
    found = [_fold(aggregate, whole) for _ in range(size.repeats)]
    return rows / median([fold for fold, _ in found]), median([encode for _, encode in found])


def _fold(aggregate: Aggregate, whole: pa.RecordBatch) -> tuple[float, float]:
    aggregation = aggregation_of({"found": aggregate}, whole.schema)
    parts = [accumulating(each) for each in aggregation.accumulators]
    table = HeapColumns(aggregation.state(), StoredKey.of(ValueType.of("long")))
    grouper = Grouper()
    began = time.perf_counter()
    for start in range(0, whole.num_rows, GATHERED_ROWS):
        batch = whole.slice(start, GATHERED_ROWS)
        groups = grouper.group(batch.column("key"))
        keys = batch.column("key").take(pa.array(groups.rows))
        table.fold(keys, [part.combine_rows(batch, groups) for part in parts])
    folded = time.perf_counter()
    for _ in table.encode(table.freeze()):
        pass
    return folded - began, time.perf_counter() - folded
