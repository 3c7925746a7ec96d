"""Matching in event time: rows wait until the watermark has passed them, and are then matched in
the order of their times, those of one time in the order in which they came.

Rows are matched a slice at a time, and a slice ends where a time does. How far that has come is
noted for each key-group, as it is for windows: what is older has been matched, and a row that comes
then is late. So a marker may pass between two slices, though rows leave the state by panes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.gathering import LINGER_S
from mainstay.runtime.operators.keeping import times_of
from mainstay.runtime.operators.patterns.match import WAITING, Mask, MatchRows, Times
from mainstay.runtime.side_names import LATE
from mainstay.runtime.watermarks import END_US, due_until
from mainstay.schema.sizes import joined
from mainstay.state.rows import RowsHandle

PANE_US = 1_000_000
SLICE_ROWS = 4096
GATHERED_ROWS = 1 << 16


class MatchInTime(MatchRows):
    """Matches rows when the watermark has passed them."""

    def __init__(self, time: int, shift_us: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._time = time
        self._shift_us = shift_us
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._since = 0.0

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._waiting: RowsHandle = context.keyed.handles[WAITING]
        self._fired = EndingTimes(context)

    # ------------------------------------------------------------ rows that come

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if not batch.num_rows:
            return
        if not self._rows:
            self._since = self.context.clock.monotonic()
        self._gathered.append(batch)
        self._rows += batch.num_rows
        if self._rows >= GATHERED_ROWS:
            self.flush()

    def flush(self, *, idle: bool = True) -> bool:
        if not self._rows:
            return False
        if not idle and self.context.clock.monotonic() < self._since + LINGER_S:
            return False
        gathered, self._gathered, self._rows = self._gathered, [], 0
        for batch in joined(gathered):
            self._take(batch)
        return True

    def _take(self, batch: pa.RecordBatch) -> None:
        column = batch.column(self._time)
        keys, times = self.reader.column(batch), times_of(column) + self._shift_us
        is_late: Mask = times < self._fired.of(keys)
        if column.null_count:
            is_late |= column.is_null().to_numpy(zero_copy_only=False)
        if is_late.any():
            late = batch.filter(pa.array(is_late))
            self.late_rows += late.num_rows
            self.sides[LATE](self.reader.visible(late))
            batch, keys = batch.filter(pa.array(~is_late)), keys.filter(pa.array(~is_late))
            times = times[~is_late]
        if batch.num_rows:
            self._waiting.append(keys, self.reader.visible(batch), times - times % PANE_US)

    # ------------------------------------------------------------ time

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        if (time_us := watermark.time_us) is None:
            return
        until_us = due_until(time_us)
        for pane, keys, rows, times in self._due_rows(until_us):
            yield from self._in_order(keys, rows, times)
            self._drop(pane, until_us)
        self._drop(None, until_us)
        yield from self.expire(until_us)
        if time_us < END_US:
            # Not up to the end of time: a job that has ended may be started again with more input.
            self._fired.advance(time_us)
        elif self.pattern.within_us is None:
            yield from self.end()

    def _due_rows(self, until_us: int) -> Iterator[tuple[int, pa.Array, pa.RecordBatch, Times]]:
        """Rows that are due, some panes at a time, with the last of the panes."""
        keys: list[pa.Array] = []
        batches: list[pa.RecordBatch] = []
        panes = [pane for pane in self._waiting.panes() if pane < until_us]
        for pane in panes:
            some_keys, rows = self._waiting.rows(pane)
            times = times_of(rows.column(self._time)) + self._shift_us
            is_due = pa.array((times >= self._fired.of(some_keys)) & (times < until_us))
            keys.append(some_keys.filter(is_due))
            batches.append(rows.filter(is_due))
            if pane == panes[-1] or sum(map(len, keys)) >= SLICE_ROWS:
                together = pa.concat_batches(batches)
                found = times_of(together.column(self._time)) + self._shift_us
                yield pane, pa.concat_arrays(keys), together, found
                keys, batches = [], []

    def _in_order(self, keys: pa.Array, rows: pa.RecordBatch, times: Times) -> Iterator[None]:
        order = np.argsort(times, kind="stable")
        taken = pa.array(order)
        keys, rows, times = keys.take(taken), rows.take(taken), times[order]
        masks = self.verdicts(rows)
        start = 0
        while start < len(times):
            end = _end_of_slice(times, start + SLICE_ROWS)
            part = slice(start, end)
            self.match(
                keys.slice(start, end - start),
                rows.slice(start, end - start),
                times[part],
                [None if mask is None else mask[part] for mask in masks],
            )
            self._fired.advance(min(int(times[end - 1]) + 1, END_US))
            yield
            start = end

    def _drop(self, last: int | None, until_us: int) -> None:
        """Forget the panes up to one, or to a time, all rows of which were matched."""
        for pane in self._waiting.panes():
            if pane + PANE_US > until_us or (last is not None and pane > last):
                return
            self._waiting.drop(pane)

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()
        self._fired.store()

    def end_of_input(self) -> None:
        self.flush()
        self._fired.ended()


def _end_of_slice(times: Times, end: int) -> int:
    """The end of a slice that is about so long: rows of one time stay together."""
    if end >= len(times):
        return len(times)
    return int(np.searchsorted(times, times[end - 1], side="right"))
