"""Interval joins whose end is a column: each left row says itself until when right rows match it.

Left rows are kept in panes of that end, and not of their time, so that a pane goes as a whole when
the watermark has passed it. Right rows are kept as in any interval join. A right row finds the left
ones of its key that had begun by its time, and those that have ended are left out of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mainstay.runtime.joins import LEFT, RIGHT, Interval, JoinShape
from mainstay.runtime.operators.joins.interval import IntervalJoin
from mainstay.runtime.operators.joins.matching import NO_TIME, Mask, Numbers
from mainstay.runtime.operators.joins.sides import Arrived, Asking, Kept
from mainstay.state.rows import Chunk

PANE_US, PADDED_PANE_US = 60_000_000, 5_000_000
"""How long panes are. Where rows that match nothing are emitted, these wait for a pane's end."""


class UntilJoin(IntervalJoin):
    """Right rows from ``lower_us`` after the time of a left row to the end that it says."""

    def __init__(self, shape: JoinShape, lower_us: int) -> None:
        # What it does by its upper bound is done by the column here.
        super().__init__(shape, Interval(lower_us, 0))
        self._lower_us = lower_us
        is_padded = shape.pads(LEFT)
        self.pane_us = PADDED_PANE_US if is_padded else PANE_US
        self.hold_us = self._interval.life(RIGHT) + (self.pane_us if is_padded else 0)

    def what(self) -> str:
        return "an interval join that ends at a column"

    def panes_between(self, kept: Kept, low: Numbers, high: Numbers) -> list[int]:
        if kept.side == RIGHT:
            return super().panes_between(kept, low, high)
        first = int(high.min()) + self._lower_us
        return [pane for pane in kept.rows.panes() if first - self.pane_us < pane]

    def bounds(self, arrived: Arrived, side: int) -> tuple[Numbers, Numbers]:
        if side == LEFT:
            return arrived.times + self._lower_us, self._ends(arrived)
        return np.full(len(arrived), NO_TIME), arrived.times - self._lower_us

    def found(
        self, arrived: Arrived, side: int, chunk: Chunk, asking: Asking
    ) -> Iterator[tuple[Numbers, Numbers]]:
        pairs = super().found(arrived, side, chunk, asking)
        if side == LEFT:
            yield from pairs
            return
        ends = self.kept[LEFT].reader.ends(chunk.rows)
        for rows, places in pairs:
            is_open = arrived.times[rows] <= ends[places]
            yield rows[is_open], places[is_open]

    def are_late(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> Mask | None:
        if side == RIGHT:
            return super().are_late(batch, keys, side)
        reader = self.readers[LEFT]
        lasts = np.maximum(reader.times_of(batch), reader.ends_of(batch))
        is_late: Mask = lasts < self.fired.of(keys)
        return is_late if is_late.any() else None

    def lasts(self, arrived: Arrived, side: int) -> Numbers:
        return self._ends(arrived) if side == LEFT else super().lasts(arrived, side)

    def panes_of(self, arrived: Arrived, side: int) -> Numbers:
        if side == RIGHT:
            return super().panes_of(arrived, side)
        ends = self._ends(arrived)
        return ends - ends % self.pane_us

    def pane_reach(self, side: int) -> int:
        return 0 if side == LEFT else super().pane_reach(side)

    def _ends(self, arrived: Arrived) -> Numbers:
        return self.kept[LEFT].reader.ends(arrived.rows)
