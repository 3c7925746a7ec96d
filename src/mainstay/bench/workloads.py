"""The workloads that are ours and everybody's: what each builds, and how its result is checked.

A workload is built afresh for every run, because its sink holds what the run was seen to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from mainstay.api.environment import Environment
from mainstay.bench.collecting import Collecting, Counting, Timing
from mainstay.bench.entries import kept_entries
from mainstay.bench.orders import SCHEMA, Orders, orders, totals_of
from mainstay.bench.progress import manifest_of, progress_of, records_at
from mainstay.bench.running import SOURCE
from mainstay.bench.totals import (
    TOTALS_SCHEMA,
    CompiledStampedTotal,
    CompiledTotal,
    RunningTotal,
    RunningTotals,
    StampedTotal,
)
from mainstay.connectors.generators import Generate
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.storage import Storage
from mainstay.state.aggregates import STATE as AGGREGATES

TOTALS = "totals"
BATCH_ROWS = 1 << 15
RECORDS_PER_S = 5_000
"""The pace of the latency workload, which leaves every system idle most of the time."""


@dataclass(slots=True)
class Workload:
    """Orders, a running total, a sink."""

    orders: Orders = orders
    sink: Collecting = field(default_factory=Counting)
    emits_every_record = True

    def build(self, env: Environment) -> None:
        raise NotImplementedError(f"{type(self).__name__} needs a build(self, env) method")

    def source(self, env: Environment) -> Any:
        return env.source(Generate(SCHEMA, self.orders, batch_rows=BATCH_ROWS), uid=SOURCE)

    def is_right(self, storage: Storage, env: Environment) -> bool:
        """Whether state and output of the last epoch are those of the records read by then."""
        latest = read_history(storage).latest_epoch
        if latest is None:
            return False
        splits = progress_of(manifest_of(storage, latest.epoch), SOURCE)
        expected = self.expected(each for split in splits for each in split.ranges())
        found = {key: total for key, total in self.totals(storage, env).items() if total}
        return found == expected and self.has_every_record(storage, env)

    def expected(self, ranges: Iterable[tuple[int, int]]) -> Mapping[Any, int]:
        """What the totals must be after the orders of these numbers, each (first, count)."""
        return totals_of(self.orders(first, count) for first, count in ranges)

    def totals(self, storage: Storage, env: Environment) -> Mapping[Any, int]:
        """The total of every key in the last epoch."""
        return dict(kept_entries(storage, env.plan(), TOTALS, "total"))

    def has_every_record(self, storage: Storage, env: Environment) -> bool:
        """Whether as many rows were committed as records were read."""
        if not self.emits_every_record or not isinstance(self.sink, Counting):
            return True
        epoch = self.sink.last_epoch
        read = records_at(manifest_of(storage, epoch), SOURCE)
        return self.sink.rows_until(epoch) == read


class ByRow(Workload):
    """A Python function for every record."""

    function: type[ms.KeyedProcess] = RunningTotal

    def build(self, env: Environment) -> None:
        keyed = self.source(env).key_by("key")
        keyed.process(self.function(), TOTALS_SCHEMA, uid=TOTALS).sink(self.sink, uid="out")


class Compiled(ByRow):
    """The same function as machine code."""

    function = CompiledTotal


class ByBatch(Workload):
    """A Python function for every batch, with a row out for every record."""

    def build(self, env: Environment) -> None:
        keyed = self.source(env).key_by("key")
        totals = keyed.process_batches(RunningTotals(), TOTALS_SCHEMA, uid=TOTALS)
        totals.sink(self.sink, uid="out")


class Aggregated(Workload):
    """The sum and the count that come with the library; a row out per key and batch."""

    emits_every_record = False

    def build(self, env: Environment) -> None:
        keyed = self.source(env).key_by("key")
        totals = keyed.aggregate(uid=TOTALS, total=ms.sum("amount"), n=ms.count())
        totals.sink(self.sink, uid="out")

    def totals(self, storage: Storage, env: Environment) -> Mapping[Any, int]:
        found = kept_entries(storage, env.plan(), TOTALS, AGGREGATES)
        return {key: total for key, (total, _) in found}

    def has_every_record(self, storage: Storage, env: Environment) -> bool:
        latest = read_history(storage).latest_epoch
        assert latest is not None
        found = kept_entries(storage, env.plan(), TOTALS, AGGREGATES)
        read = records_at(manifest_of(storage, latest.epoch), SOURCE)
        return bool(sum(count for _, (_, count) in found) == read)


class Paced(Workload):
    """A few records a second, each of which knows when it was made."""

    function: type[ms.KeyedProcess] = StampedTotal

    def __init__(self, orders: Orders = orders, records_per_s: float = RECORDS_PER_S) -> None:
        super().__init__(orders, Timing())
        self.records_per_s = records_per_s

    def build(self, env: Environment) -> None:
        keyed = self.source(env).key_by("key")
        schema = "key long, total long, made_ns long, due_ns long"
        keyed.process(self.function(), schema, uid=TOTALS).sink(self.sink, uid="out")

    def source(self, env: Environment) -> Any:
        splits = env.parallelism
        stamped = Stamped(self.orders, self.records_per_s / splits)
        schema = f"{SCHEMA}, made_ns long, due_ns long"
        source = Generate(schema, stamped, splits=splits, rows_per_second=self.records_per_s)
        return env.source(source, uid=SOURCE)

    def ages_ms(self, after: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Milliseconds from a record's making, and from when it was due, to the sink."""
        assert isinstance(self.sink, Timing)
        made, due = self.sink.ages_us(after, last) / 1000
        return made, due


class PacedCompiled(Paced):
    """The same with a function as machine code."""

    function = CompiledStampedTotal


class Stamped:
    """Orders with the time at which they were made, and that at which their pace wanted them.

    A poll makes all orders that have come due since the one before: its last is due now, and those
    before it have waited, each for as long as its distance to the last is worth.
    """

    def __init__(self, orders: Orders, records_per_s: float) -> None:
        self._orders = orders
        self._interval_ns = 1e9 / records_per_s

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        batch = self._orders(first, count)
        now = time.time_ns()
        waited = np.arange(count - 1, -1, -1) * self._interval_ns
        made, due = np.full(count, now), now - waited.astype(np.int64)
        columns = [*batch.columns, pa.array(made), pa.array(due)]
        return pa.record_batch(columns, names=[*batch.schema.names, "made_ns", "due_ns"])


def percentiles_ms(ages_ms: np.ndarray) -> dict[str, float]:
    names = {"p50": 50, "p99": 99, "p99.9": 99.9}
    found = np.percentile(ages_ms, list(names.values())).tolist() if len(ages_ms) else [np.nan] * 3
    return dict(zip(names, found, strict=True))
