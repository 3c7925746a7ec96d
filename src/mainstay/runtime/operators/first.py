"""Deduplication that keeps the first row of each key: it is emitted at once, the others are not.

A key is remembered for ever, for a while by the wall clock (the state then has a time to live), or
for a while by event time. In the last case a row counts as new again when it is that much newer
than the one that was emitted, whatever the watermark is. The watermark says what may be forgotten:
keys whose while is over for every row that may still come. Rows behind it are late, since their
key may be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.operators.forgetting import Forgetting
from mainstay.runtime.operators.keeping import Keeping, KeyedRows, Rows, times_of
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import KeySpec

SEEN, SEEN_US = "seen", "seen_us"
LONG_AGO = -(1 << 61)
"""The time of a key that is not remembered: any row is newer by any while."""


class KeepFirst(Keeping):
    """Emits a row if nothing is kept for its key."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._seen = self.state(SEEN)

    def take(self, batch: pa.RecordBatch) -> None:
        keys = self.reader.column(batch)
        first = self.grouped(keys).first()
        distinct = keys.take(pa.array(first))
        is_new = self._seen.column(distinct).is_null()
        new = distinct.filter(is_new)
        if not len(new):
            return
        self._seen.put_many(new, pa.array(np.ones(len(new), np.bool_)))
        self.emit(batch, first[is_new.to_numpy(zero_copy_only=False)])


class KeepFirstWithin(Keeping):
    """Emits a row if its key was not emitted, or so long before that it counts no more."""

    may_be_cut = True

    def __init__(self, key: KeySpec, schema: pa.Schema, time: int, within_us: int) -> None:
        super().__init__(key, schema)
        self._time = time
        self._within_us = within_us

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._seen = self.state(SEEN_US)
        self._fired = FiredTimes(context)
        self._forgetting = Forgetting(self._seen, self._within_us)

    def take(self, batch: pa.RecordBatch) -> None:
        batch = on_time(self, batch, self._time, self._fired)
        if not batch.num_rows:
            return
        keys, times = self.reader.column(batch), times_of(batch.column(self._time))
        rows = self.grouped(keys)
        distinct = keys.take(pa.array(rows.first()))
        seen = np.array(self._seen.get_many(distinct, LONG_AGO), np.int64)
        emitted, is_changed = self._fresh(times, rows, seen)
        self._seen.put_many(distinct.filter(pa.array(is_changed)), seen[is_changed].tolist())
        self.emit(batch, np.flatnonzero(emitted))

    def _fresh(
        self, times: Rows, rows: KeyedRows, seen: Rows
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which rows are new, and of which keys there are any; ``seen`` moves on with them.

        In each round the first new row of every key is found. More rounds are needed only where a
        batch has rows of one key that lie far apart.
        """
        emitted, is_changed = np.zeros(len(times), bool), np.zeros(rows.count, bool)
        left = np.flatnonzero(times >= seen[rows.codes] + self._within_us)
        while len(left):
            codes = rows.codes[left]
            first = np.full(rows.count, -1, np.int64)
            first[codes[::-1]] = left[::-1]
            first = first[first >= 0]
            emitted[first] = True
            changed = rows.codes[first]
            is_changed[changed] = True
            seen[changed] = times[first]
            left = left[times[left] >= seen[codes] + self._within_us]
        return emitted, is_changed

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        yield from self._forgetting.on_watermark(watermark, self._fired)

    def before_marker(self, epoch: Epoch) -> None:
        super().before_marker(epoch)
        self._fired.store()


def on_time(
    operator: Keeping, batch: pa.RecordBatch, time: int, fired: FiredTimes
) -> pa.RecordBatch:
    """The rows that are not behind the watermark; the others, and those that have no time, go
    into the side output for late ones."""
    column = batch.column(time)
    is_late = times_of(column) < fired.of(operator.reader.column(batch))
    if column.null_count:
        is_late |= column.is_null().to_numpy(zero_copy_only=False)
    if not is_late.any():
        return batch
    late = batch.filter(pa.array(is_late))
    operator.sides[LATE](operator.reader.visible(late))
    return batch.filter(pa.array(~is_late))
