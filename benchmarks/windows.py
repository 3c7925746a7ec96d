"""Rows a second through windows, beside a running aggregation of the same rows.

``aggregate`` emits a row per key and batch and has no time; a tumbling window emits one per key and
ten seconds of event time; one that slides by a second emits its keys for every second, so it has
few of them here. Jobs run in processes of their own, and take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.report import Size, Table, count, median
from mainstay.api.environment import Environment
from mainstay.bench.measuring import measure as measured
from mainstay.bench.orders import orders
from mainstay.bench.running import PROCESSES, SOURCE
from mainstay.bench.workloads import Workload
from mainstay.connectors.generators import Generate
from mainstay.snapshot.storage import Storage

SCHEMA = "key long, amount long, at timestamp"
ROWS_PER_S = 100_000
"""Rows of each split in a second of event time."""
BATCH_ROWS = 1 << 15
SECONDS = 8.0
FEW_KEYS = 1_000
Then = Callable[[ms.KeyedStream], ms.Stream]


@dataclass(slots=True)
class Timed:
    """Orders with the time of their events, of some of the customers."""

    keys: int

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        batch = orders(first, count)
        times = np.arange(first, first + count, dtype=np.int64) * (1_000_000 // ROWS_PER_S)
        keys = pa.array(batch.column(0).to_numpy() % self.keys)
        at = pa.array(times).cast(pa.timestamp("us", "UTC"))
        names = ["key", "amount", "at"]
        return pa.record_batch([keys, batch.column(1), at], names=names)


class Windowed(Workload):
    """A count and a sum, and what is between the key and them."""

    emits_every_record = False

    def __init__(self, then: Then, keys: int) -> None:
        super().__init__()
        self._then, self._timed = then, Timed(keys)

    def build(self, env: Environment) -> None:
        generated = Generate(SCHEMA, self._timed, batch_rows=BATCH_ROWS)
        source = env.source(generated, uid=SOURCE, watermark=ms.Watermark("at", delay="1s"))
        self._then(source.key_by("key")).sink(self.sink, uid="out")

    def is_right(self, storage: Storage, env: Environment) -> bool:
        """Tests hold what windows give; here only the rate counts."""
        return True


def _aggregate(keyed: ms.KeyedStream) -> ms.Stream:
    return keyed.aggregate(total=ms.sum("amount"), n=ms.count(), uid="totals")


def _in(window: Any) -> Then:
    def then(keyed: ms.KeyedStream) -> ms.Stream:
        found = keyed.window(window)
        return found.aggregate(total=ms.sum("amount"), n=ms.count(), uid="totals")

    return then


WAYS: dict[str, tuple[Then, int]] = {
    "aggregate, 100,000 keys": (_aggregate, 100_000),
    "tumbling 10 s, 100,000 keys": (_in(ms.tumbling("10s")), 100_000),
    "tumbling 10 s, 1,000 keys": (_in(ms.tumbling("10s")), FEW_KEYS),
    "sliding 1 h by 1 s, 1,000 keys": (_in(ms.sliding("1h", every="1s")), FEW_KEYS),
}


def measure(size: Size) -> list[Table]:
    table = Table(
        "Windows",
        ["way", "rows/s", "of the first"],
        "A sum and a count by a long at parallelism 2, in event time. Medians.",
    )
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(size.repeats):
        for name, (then, keys) in WAYS.items():
            found = measured(Windowed(then, keys), PROCESSES, max(1.0, SECONDS / size.divisor))
            rates[name].append(found.records_per_s)
    first = median(rates[next(iter(WAYS))])
    for name, each in rates.items():
        table.add(name, count(median(each)), f"{median(each) / first:.2f}")
    return [table]
