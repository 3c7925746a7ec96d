"""The functions that are measured: a running total for every order, by row and by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms

TOTALS_SCHEMA = "key long, total long"


class RunningTotal(ms.KeyedProcess):
    """One call for every order, one order out for every order in."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> tuple[int, int]:
        total = (self.total.get() or 0) + row.amount
        self.total.update(total)
        return ctx.key, total


class CompiledTotal(RunningTotal, compiled=True):
    """The same as machine code."""


class RunningTotals(ms.KeyedBatchProcess):
    """The same with one call for every batch."""

    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> pa.RecordBatch:
        starts = batch.offsets[:-1]
        before = np.array(self.total.get_many(batch.keys, 0))
        running = np.cumsum(batch.batch.column("amount").to_numpy())
        # What the running sum was when a key's orders began is not the key's.
        others = np.where(starts > 0, running[starts - 1], 0)
        totals = running + np.repeat(before - others, batch.counts)
        self.total.put_many(batch.keys, totals[batch.offsets[1:] - 1])
        columns = {"key": batch.batch.column("key"), "total": pa.array(totals)}
        return pa.record_batch(columns)


class StampedTotal(ms.KeyedProcess):
    """A running total that passes on when its order was made, and when it was due."""

    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> tuple[int, int, int, int]:
        total = (self.total.get() or 0) + row.amount
        self.total.update(total)
        return ctx.key, total, row.made_ns, row.due_ns


class CompiledStampedTotal(StampedTotal, compiled=True):
    """The same as machine code."""
