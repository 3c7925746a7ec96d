"""Window joins: rows of both sides that fall into the same window, when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.joins import LEFT, RIGHT, SIDES, JoinShape
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.joins.base import TimedJoin
from mainstay.runtime.operators.joins.matching import (
    Mask,
    Numbers,
    Sorted,
    are_equal,
    are_exact,
    have_no_null,
    pairs,
    words_for,
)
from mainstay.runtime.operators.joins.sides import Arrived
from mainstay.runtime.watermarks import END_US, START_US, due_until
from mainstay.runtime.windows import FixedWindows
from mainstay.state.rows import Chunk, RowsHandle


class WindowJoin(TimedJoin):
    """Keeps both sides by slices of the windows, and joins all of a window at its end."""

    def __init__(self, shape: JoinShape, windows: FixedWindows) -> None:
        super().__init__(shape)
        self._windows = windows
        # All that a window has is emitted at its end, and its first rows are as old as it is long.
        self.hold_us = windows.size_us
        self._end = 0

    def open_states(self, handles: Any) -> None:
        self.kept: list[RowsHandle] = [handles[name] for name in SIDES]
        self._is_exact = are_exact(self.shape.sides[LEFT].key.type.arrow)

    def what(self) -> str:
        return f"a join in {self._windows}"

    def is_empty(self) -> bool:
        return not any(kept.panes() for kept in self.kept)

    def are_late(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> Mask | None:
        times = self.readers[side].times_of(batch)
        slices = self._windows.slice_end(times)
        is_late: Mask = self._windows.last_end(slices) <= self.fired.of(keys)
        # What is in no window is not late.
        is_late &= self._windows.is_within(slices)
        return is_late if is_late.any() else None

    def take(self, arrived: Arrived, side: int) -> None:
        slices = self._windows.slice_end(arrived.times)
        if self._windows.has_gaps:
            is_within = self._windows.is_within(slices)
            arrived, slices = arrived.only(is_within), slices[is_within]
        self.kept[side].append(arrived.keys, arrived.rows, slices)

    def take_null_keys(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> None:
        """They go out with their windows, where they go out at all."""
        if self.shape.pads(side):
            self.take(self.readers[side].arrived(batch, keys), side)

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        if (time_us := watermark.time_us) is None:
            return
        slices = sorted({pane for kept in self.kept for pane in kept.panes()})
        last, until = self.fired.lowest, due_until(time_us)
        for end in self._windows.ends(slices, self.fired.lowest, until):
            self._fire(self._windows.of_window(slices, end), end)
            last = end
            yield
        for kept in self.kept:
            for pane in kept.panes():
                if self._windows.last_end(pane) <= until:
                    kept.drop(pane)
        self.fired.advance(time_us if time_us < END_US else last)

    def _fire(self, slices: Any, end: int) -> None:
        """Emit the join of all rows of a window."""
        self._end = end
        left, right = (self._in_window(side, slices, end) for side in (LEFT, RIGHT))
        have_matched = [np.zeros(len(each), np.bool_) for each in (left, right)]
        emits_pairs = self.shape.how not in ("semi", "anti")
        for rows, places in self._matches(left, right):
            have_matched[LEFT][rows] = True
            have_matched[RIGHT][places] = True
            if emits_pairs:
                taken = pa.array(rows)
                theirs = right.rows.take(pa.array(places))
                self.emit(left.keys.take(taken), left.rows.take(taken), theirs)
        if self.shape.how == "semi":
            chosen = pa.array(have_matched[LEFT])
            self.emit(left.keys.filter(chosen), left.rows.filter(chosen), None)
        for side, each in enumerate((left, right)):
            alone = pa.array(~have_matched[side])
            self.unmatched(side, each.keys.filter(alone), each.rows.filter(alone))

    def _in_window(self, side: int, slices: Any, end: int) -> Chunk:
        """The rows of a window. Key-groups that were further have emitted it already."""
        found = [chunk for pane in slices for chunk in self.kept[side].chunks(pane)]
        if not found:
            return Chunk(*self.kept[side].rows(end))
        keys = pa.concat_arrays([chunk.keys for chunk in found])
        rows = pa.concat_batches([chunk.rows for chunk in found])
        if not self.fired.is_even:
            still = pa.array(self.fired.of(keys) < end)
            keys, rows = keys.filter(still), rows.filter(still)
        return Chunk(keys, rows)

    def _matches(self, left: Chunk, right: Chunk) -> Iterator[tuple[Numbers, Numbers]]:
        ours, theirs = _may_match(left), _may_match(right)
        if not len(ours) or not len(theirs):
            return
        none = np.zeros(len(ours), np.int64)
        index = Sorted(_words(right, theirs), np.zeros(len(theirs), np.int64))
        words = _words(left, ours)
        order = np.argsort(words)
        for found, places in pairs(*index.ranges(words[order], none, none)):
            rows, others = ours[order[found]], theirs[index.order[places]]
            if not self._is_exact:
                keys, other = left.keys.take(pa.array(rows)), right.keys.take(pa.array(others))
                same = are_equal(keys, other)
                rows, others = rows[same], others[same]
            yield rows, others

    def more(self, count: int) -> list[pa.Array]:
        bounds = (max(self._windows.start(self._end), START_US), min(self._end, END_US))
        fields = list(self.shape.schema)[-2:]
        return [
            pa.array(np.full(count, bound, np.int64)).cast(field.type)
            for bound, field in zip(bounds, fields, strict=True)
        ]


def _may_match(chunk: Chunk) -> Numbers:
    """The rows whose keys have no null."""
    valid = have_no_null(chunk.keys)
    return np.arange(len(chunk)) if valid is None else np.flatnonzero(valid)


def _words(chunk: Chunk, rows: Numbers) -> Numbers:
    keys = chunk.keys if len(rows) == len(chunk) else chunk.keys.take(pa.array(rows))
    return words_for(keys)
