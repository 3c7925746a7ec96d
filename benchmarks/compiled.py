"""Compiled functions beside the same functions as ordinary Python, through one worker.

The worker has everything a real one has: source, partitioning by key, channels with credit, the
operator, a sink. Both forms take the same rows, in turn.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.report import Size, Table, count, median
from examples.compiled.anomalies import ANOMALY, Anomalies
from examples.compiled.fraud import SCORED, Scores
from examples.compiled.sessions import SESSION, Sessions
from mainstay.bench.totals import TOTALS_SCHEMA, CompiledTotal
from mainstay.snapshot.object_storage import open_storage

ROWS = 2_000_000
PLAIN_SHARE = 8
"""How many times fewer rows the plain form is given."""
KEYS = 50_000

Made = Callable[[int], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Case:
    """A function, and rows for it."""

    function: type[ms.KeyedProcess]
    key: str
    schema: str
    made: Made


def measure(size: Size) -> list[Table]:
    table = Table(
        "Compiled functions",
        ["function", "plain rows/s", "compiled rows/s", "times", "range of times"],
        f"One worker, {KEYS:,} keys, medians of {size.repeats} rounds in turn. A row goes in; rows "
        "come out as the function emits them.",
    )
    rows = size.of(ROWS)
    for name, case in CASES.items():
        batch = case.made(rows)
        pairs = [(_rate(case, batch, False), _rate(case, batch, True)) for _ in range(size.repeats)]
        ratios = [compiled / plain for plain, compiled in pairs]
        plain, compiled = (median(list(each)) for each in zip(*pairs, strict=True))
        spread = f"{min(ratios):.1f}–{max(ratios):.1f}"
        table.add(name, count(plain), count(compiled), f"{median(ratios):.1f}", spread)
    return [table]


def _rate(case: Case, batch: pa.RecordBatch, compiled: bool) -> float:
    """Rows a second of the processor's time of this process."""
    form = type(case.function.__name__, (case.function,), {}, compiled=compiled)
    env = ms.Environment(parallelism=1)
    source = Endless(batch)
    stream = env.source(source, uid=SOURCE_UID).key_by(case.key)
    stream.process(form(), case.schema, uid="function").sink(Counting(), uid="out")
    rows = batch.num_rows // (1 if compiled else PLAIN_SHARE)
    with tempfile.TemporaryDirectory() as directory:
        worker = BenchWorker(env.plan(), open_storage(directory))
        # The first rows fill queues, and the state of all keys.
        worker.run_until(lambda: source.given >= rows)
        read, began = source.given, time.process_time()
        worker.run_until(lambda: source.given - read >= rows)
        elapsed_s, given = time.process_time() - began, source.given - read
        worker.close()
    return given / elapsed_s


# ---------------------------------------------------------------- rows


def _keys(rows: int) -> pa.Array:
    return pa.array(np.random.default_rng(7).integers(0, KEYS, rows))


def _orders(rows: int) -> pa.RecordBatch:
    amounts = np.arange(rows, dtype=np.int64) % 1000
    return pa.record_batch({"key": _keys(rows), "amount": pa.array(amounts)})


def _times(rows: int) -> pa.Array:
    """Times that go on, by about a minute for a key with each of its rows."""
    return pa.array(np.arange(rows, dtype=np.int64) * 1200).cast(pa.timestamp("us"))


def _payments(rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(8)
    countries = pa.array(["DE", "FR", "BR", "US"]).take(pa.array(random.integers(0, 4, rows)))
    columns = {
        "card": _keys(rows),
        "at": _times(rows),
        "amount": pa.array(random.random(rows) * 100),
        "country": countries,
    }
    return pa.record_batch(columns)


def _readings(rows: int) -> pa.RecordBatch:
    celsius = np.random.default_rng(9).normal(40.0, 1.0, rows)
    return pa.record_batch({"sensor": _keys(rows), "celsius": pa.array(celsius)})


def _clicks(rows: int) -> pa.RecordBatch:
    prices = np.random.default_rng(10).integers(0, 100, rows)
    return pa.record_batch({"user": _keys(rows), "at": _times(rows), "price": pa.array(prices)})


CASES = {
    "a running total": Case(CompiledTotal, "key", TOTALS_SCHEMA, _orders),
    "fraud scoring": Case(Scores, "card", SCORED, _payments),
    "exponentially weighted anomalies": Case(Anomalies, "sensor", ANOMALY, _readings),
    "sessions as they come": Case(Sessions, "user", SESSION, _clicks),
}
