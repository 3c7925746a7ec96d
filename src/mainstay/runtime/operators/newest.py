"""Deduplication that keeps the newest row of each key: an updating stream.

What is remembered of a key is the value that says how new a row is, and not the row. Of the rows of
a key in one batch only the newest is emitted. Rows that are equally new replace each other in the
order in which they come; without such a column every row is newer than those before it, and
nothing need be remembered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.operators.first import LONG_AGO, SEEN_US, on_time
from mainstay.runtime.operators.forgetting import Forgetting
from mainstay.runtime.operators.keeping import Keeping, Rows, times_of
from mainstay.runtime.spec import KeySpec
from mainstay.state.ordering import ranks, ranks_of_both

NEWEST = "newest"


class KeepLast(Keeping):
    """Emits the last row of each key and batch."""

    def take(self, batch: pa.RecordBatch) -> None:
        self.emit(batch, self.grouped(self.reader.column(batch)).last())


class KeepNewest(Keeping):
    """Emits the newest row of each key and batch, unless a newer one was emitted before."""

    def __init__(self, key: KeySpec, schema: pa.Schema, by: int) -> None:
        super().__init__(key, schema)
        self._by = by

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._newest = self.state(NEWEST)

    def take(self, batch: pa.RecordBatch) -> None:
        keys, by = self.reader.column(batch), batch.column(self._by)
        rows = self.grouped(keys)
        order = np.argsort(ranks(by), kind="stable")
        best = np.empty(rows.count, np.int64)
        best[rows.codes[order]] = order
        distinct = keys.take(pa.array(best))
        is_newer = self.is_newer(distinct, by.take(pa.array(best)))
        is_newer |= self.is_forgotten(distinct)
        self.remember(distinct.filter(pa.array(is_newer)), batch, best[is_newer])
        self.emit(batch, best[is_newer])

    def is_newer(self, keys: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Which values are at least as new as what is kept, if anything is."""
        new, kept = ranks_of_both(values, self._newest.column(keys))
        return new >= kept

    def is_forgotten(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Of which keys what is kept counts no more."""
        return np.zeros(len(keys), bool)

    def remember(self, keys: pa.Array, batch: pa.RecordBatch, rows: Rows) -> None:
        """The newest row of each of some keys. One whose order is null is older than any other."""
        self._newest.put_many(keys, batch.column(self._by).take(pa.array(rows)))


class KeepNewestWithin(KeepNewest):
    """The same, with keys that are forgotten some time after their newest row, by event time."""

    may_be_cut = True

    def __init__(self, key: KeySpec, schema: pa.Schema, by: int, time: int, within_us: int) -> None:
        super().__init__(key, schema, by)
        self._time = time
        self._within_us = within_us

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._seen = self.state(SEEN_US)
        self._fired = FiredTimes(context)
        self._forgetting = Forgetting(self._seen, self._within_us, self._newest)

    def take(self, batch: pa.RecordBatch) -> None:
        batch = on_time(self, batch, self._time, self._fired)
        if batch.num_rows:
            super().take(batch)

    def is_forgotten(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        return self._seen_of(keys) + self._within_us <= self._fired.of(keys)

    def remember(self, keys: pa.Array, batch: pa.RecordBatch, rows: Rows) -> None:
        super().remember(keys, batch, rows)
        times = times_of(batch.column(self._time))[rows]
        self._seen.put_many(keys, np.maximum(times, self._seen_of(keys)).tolist())

    def _seen_of(self, keys: pa.Array) -> Rows:
        return np.array(self._seen.get_many(keys, LONG_AGO), np.int64)

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        yield from self._forgetting.on_watermark(watermark, self._fired)

    def before_marker(self, epoch: Epoch) -> None:
        super().before_marker(epoch)
        self._fired.store()
