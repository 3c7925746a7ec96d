"""Windows with fixed bounds, aggregated by key: rows into panes, panes into windows when due.

A row goes into the pane of its slice, once, however many windows it is in. A watermark makes
windows complete: they fire one after the other, each as a whole, in columns, and a pane goes when
the last window that it is in has fired. How far each key-group has fired is in the snapshot; it
decides which rows are late, and keeps a window from firing twice.

Between two windows there may be a cut: the one has left the state, or is said to have fired, and
the other is found again when the same watermark comes again. Within a window there may be none.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.aggregate import OTHER_FORM
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.made_for import check_made_for
from mainstay.runtime.operators.slicing import RowTimes, Slicing, as_bounds, held
from mainstay.runtime.operators.sliding import WindowPanes
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import END_US, EVER_US, due_until
from mainstay.runtime.windows import FixedWindows, Times
from mainstay.state.accumulating import Column
from mainstay.state.aggregates import Aggregation
from mainstay.state.columns import PanesHandle
from mainstay.state.grouping import Groups

PANES = "panes"
"""The name of the state."""
EMITTED_ROWS = 8192
"""Rows that are emitted at a time."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Emission:
    """When results are emitted: once when a window takes no more rows, unless ``updates``; then
    also at its end and when late rows have changed it, and ``every_us`` before."""

    lateness_us: int = 0
    updates: bool = False
    every_us: int | None = None


class WindowByKey(Slicing):
    """Aggregates of each key in windows.

    What comes in are rows of the stream, or, ``combined``, what a ``SliceCombine`` emits. A
    restored snapshot may hold the other of the two, whose key is the ``other_key``.
    """

    may_be_cut = True

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        windows: FixedWindows,
        times: RowTimes,
        emission: Emission,
        order: tuple[int, ...],
        visible: tuple[int, ...],
        combined: bool,
        other_key: KeySpec,
    ) -> None:
        super().__init__(key, aggregation, schema, windows, times)
        self._emission = emission
        self._order = order
        self._visible = visible
        self._combined = combined
        self._other_key = other_key
        self._is_processing = times.column is None
        self._is_clocked = self._is_processing or emission.every_us is not None
        self._stamp = 0
        """The slice of what is gathered, in processing time."""
        self._due_us: int | None = None
        """When the next window is complete, in processing time."""
        self._early_us: int | None = None
        """When results are emitted early for the next time."""
        self._touched: dict[int, list[pa.Array]] = {}
        """The keys whose results are to be emitted early, by pane."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._state: PanesHandle = context.keyed.handles[PANES]
        self._fired = EndingTimes(context)
        late = self._emission.lateness_us
        made_for = f"{self._windows}{f', lateness {late / 1e6:g} s' if late else ''}"
        check_made_for(context, made_for, is_empty=lambda: not self._state.panes())
        self._panes = WindowPanes(
            self._windows,
            self._state,
            self._key.type,
            self._parts,
            once=not self._emission.updates,
        )
        if self._emission.every_us is not None:
            # What had changed since results were last emitted nobody knows any more.
            for pane in self._state.panes():
                self._touch(pane, self._state.pane(pane)[0])
        self._note_due()

    # ------------------------------------------------------------ rows

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if port == OTHER_FORM:
            self.flush()
            if self._is_processing:
                self._stamp_gathered()
            self._change_form()
            self.take(batch)
            self._change_form()
            return
        if self._is_processing:
            self._stamp_gathered()
        super().process(batch, port)

    def _stamp_gathered(self) -> None:
        # Never back behind what has fired, whatever the clock says: no row is late.
        now = max(self.context.row_context.now_us(), self._fired.highest)
        stamp = self._windows.slice_end(now)
        if stamp != self._stamp:
            self.flush()
            self._stamp = stamp

    def _change_form(self) -> None:
        self._key, self._other_key = self._other_key, self._key
        self._combined = not self._combined

    def flush(self, *, idle: bool = True) -> bool:
        is_taken = super().flush(idle=idle)
        if is_taken:
            self._note_due()
        return is_taken

    def take(self, batch: pa.RecordBatch) -> None:
        """Fold rows into their panes, but for those that come too late."""
        keys = self.key_column(batch)
        slices, known = self._slices_of(batch)
        taken = self._taken(batch, keys, slices, known)
        if taken is not None:
            rows = pa.array(np.flatnonzero(taken))
            batch, keys, slices = batch.take(rows), keys.take(rows), slices[taken]
        if not len(keys):
            return
        entries = self.entries(keys, slices)
        with self.blamed(entries.keys, entries.codes):
            partials = self.combined(batch, entries.groups)
            self._state.fold_into(entries.keys, entries.codes, entries.slices, partials)
        self._panes.changed(entries.slices)
        if self._emission.updates:
            self._note_touched(entries.keys, entries.codes, entries.slices)

    def _slices_of(self, batch: pa.RecordBatch) -> tuple[Times, Mask | None]:
        """The slice of each row, and which of them have one (None: all do)."""
        if self._is_processing:
            return np.full(batch.num_rows, self._stamp, np.int64), None
        if self._combined:
            slices, known = RowTimes(len(self._key.columns)).of(batch)
        else:
            times, known = self._times.of(batch)
            slices = self._windows.slice_end(times)
        return slices, held(slices, known)

    def _taken(
        self, batch: pa.RecordBatch, keys: pa.Array, slices: Times, known: Mask | None
    ) -> Mask | None:
        """Which rows are in a window that still takes them; None where all are."""
        windows, lateness = self._windows, self._emission.lateness_us
        has_gaps = windows.has_gaps
        if known is None and not has_gaps:
            oldest = windows.last_end(int(slices.min()))
            if oldest + lateness > self._fired.highest:
                return None
        # Compared this way round, because nothing may be subtracted from the earliest time.
        late = windows.last_end(slices) + lateness <= self._fired.of(keys)
        if known is not None:
            late |= ~known
        taken = ~late
        if has_gaps:
            within = windows.is_within(slices)
            taken &= within
            late &= within if known is None else within | ~known
        if late.any():
            self._put_aside(batch, late)
        return taken

    def _put_aside(self, batch: pa.RecordBatch, late: Mask) -> None:
        """Rows that no window takes: to who reads them, and counted in any case."""
        if self._combined:
            counts = batch.column(len(self._key.columns) + 1).to_numpy()
            self.late_rows += int(counts[late].sum())
            return
        self.late_rows += int(np.count_nonzero(late))
        rows = batch.take(pa.array(np.flatnonzero(late)))
        self.sides[LATE](rows.select(list(self._visible)))

    def combined(self, batch: pa.RecordBatch, groups: Groups) -> list[Column]:
        if not self._combined:
            return super().combined(batch, groups)
        partials = zip(self._parts, batch.columns[len(self._key.columns) + 2 :], strict=True)
        return [part.combine(column, groups) for part, column in partials]

    # ------------------------------------------------------------ firing

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        if watermark.time_us is not None and not self._is_processing:
            yield from self._fire(watermark.time_us)

    def end_of_input(self) -> None:
        self.flush()
        if self._is_processing:
            for _ in self._fire(END_US):
                pass
        self._fired.ended()

    def _fire(self, now_us: int) -> Iterator[None]:
        """Emit all windows that are complete by a time, and forget what no window needs."""
        lateness = self._emission.lateness_us
        for instant, end in self._due(due_until(now_us)):
            self.may_be_cut = False
            is_final = instant == end + lateness
            yield from self._emit(end, *self._of_window(end, instant), is_final=is_final)
            self._forget(instant)
            self._fired.advance(instant)
            self.may_be_cut = True
            yield
        if now_us < END_US:
            # Not at the end of time: the job may go on with more input.
            self._fired.advance(now_us)
        self._note_due()

    def _due(self, now_us: int) -> Iterator[tuple[int, int]]:
        """When what is due by a time is to be emitted, and the end of which window, in order."""
        panes, lateness = self._state.panes(), self._emission.lateness_us
        fired, ends = self._fired.lowest, self._windows.ends
        final = ((end + lateness, end) for end in ends(panes, fired - lateness, now_us - lateness))
        if not self._emission.updates or not lateness:
            return final
        # What is final by then as well is emitted once.
        first = ((end, end) for end in ends(panes, fired, now_us) if end + lateness > now_us)
        return heapq.merge(final, first)

    def _of_window(self, end: int, instant: int) -> tuple[pa.Array, list[Column]]:
        """The keys of a window that has not fired for them by this instant, with what is kept."""
        with self.blamed():
            keys, columns = self._panes.merged(end, self._state.panes())
        return _where(keys, columns, self._fired.of(keys) < instant)

    def _forget(self, instant: int) -> None:
        """Drop the panes whose last window has been emitted for the last time."""
        for pane in self._state.panes():
            if self._windows.last_end(pane) + self._emission.lateness_us > instant:
                break
            with self.blamed():
                self._panes.drop(pane)
            self._touched.pop(pane, None)

    def _emit(
        self, end: int, keys: pa.Array, columns: Sequence[Column], *, is_final: bool
    ) -> Iterator[None]:
        start = self._windows.start(end)
        for first in range(0, len(keys), EMITTED_ROWS):
            if first:
                yield
            some = slice(first, first + EMITTED_ROWS)
            part = [(v[some], None if valid is None else valid[some]) for v, valid in columns]
            self._emit_some(keys[some], part, start, end, is_final=is_final)

    def _emit_some(
        self, keys: pa.Array, columns: list[Column], start: int, end: int, *, is_final: bool
    ) -> None:
        rows = len(keys)
        is_one = len(self._key.columns) == 1
        bounds = [as_bounds(np.full(rows, time, np.int64)) for time in (start, end)]
        results = self.outputs(keys, columns)
        final = pa.array(np.full(rows, is_final))
        found = [*([keys] if is_one else keys.flatten()), *bounds, *results, final]
        arrays = [found[number] for number in self._order]
        self.out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    # ------------------------------------------------------------ updates and early results

    def _touch(self, pane: int, keys: pa.Array) -> None:
        self._touched.setdefault(pane, []).append(keys)

    def _note_touched(self, keys: pa.Array, codes: Any, slices: Times) -> None:
        """Results have changed. Of windows that are complete they are emitted at once."""
        late: dict[int, list[pa.Array]] = {}
        for pane in np.unique(slices).tolist():
            some = keys.take(pa.array(codes[slices == pane]))
            if self._emission.every_us is not None:
                self._touch(pane, some)
            if self._windows.first_end(pane) <= self._fired.highest:
                late[pane] = [some]
        if late and self._emission.lateness_us:
            after = self._fired.lowest - self._emission.lateness_us
            for _ in self._emit_touched(late, after, late=True):
                pass

    def _emit_touched(
        self, touched: dict[int, list[pa.Array]], after: int, *, late: bool
    ) -> Iterator[None]:
        """Emit what is kept now for keys that have changed, in the windows of their panes."""
        panes, changed = self._state.panes(), sorted(touched)
        until = self._fired.highest if late else EVER_US
        for end in self._windows.ends(changed, after, until):
            own = self._windows.of_window(changed, end)
            some = [keys for pane in own for keys in touched[pane]]
            with self.blamed():
                keys, columns = self._panes.some(end, panes, some)
            fired = self._fired.of(keys)
            if late:
                is_meant = (fired >= end) & (fired < end + self._emission.lateness_us)
            else:
                is_meant = fired < end
            yield from self._emit(end, *_where(keys, columns, is_meant), is_final=False)

    # ------------------------------------------------------------ the wall clock

    def is_due(self) -> bool:
        if not self._is_clocked:
            return False
        now = self.context.row_context.now_us()
        times = (self._due_us, self._early_us if self._touched else None)
        return any(time is not None and now >= time for time in times)

    def on_clock(self) -> Iterator[None]:
        self.flush()
        now = self.context.row_context.now_us()
        if self._is_processing:
            yield from self._fire(now)
        if self._early_us is not None and now >= self._early_us:
            assert self._emission.every_us is not None
            touched, self._touched = self._touched, {}
            yield from self._emit_touched(touched, self._fired.lowest, late=False)
            self._early_us = now + self._emission.every_us

    def deadline(self) -> float | None:
        times = [time for time in (self._due_us, self._early_us) if time is not None]
        if not self._is_clocked or not times:
            return None
        left_us = min(times) - self.context.row_context.now_us()
        return self.context.clock.monotonic() + max(0, left_us) / 1_000_000

    def _note_due(self) -> None:
        """Find out when something is due by the wall clock."""
        if self._emission.every_us is not None and self._early_us is None:
            self._early_us = self.context.row_context.now_us() + self._emission.every_us
        if self._is_processing:
            panes, fired = self._state.panes(), self._fired.lowest
            self._due_us = next(self._windows.ends(panes, fired, END_US), None)

    # ------------------------------------------------------------ snapshots

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()
        self._fired.store()


def _where(keys: pa.Array, columns: list[Column], mask: Any) -> tuple[pa.Array, list[Column]]:
    """Those keys for which a mask holds, which may be one truth for all."""
    if isinstance(mask, bool | np.bool_):
        return (keys, columns) if mask else (keys[:0], [(v[:0], None) for v, _ in columns])
    if mask.all():
        return keys, columns
    places = np.flatnonzero(mask)
    some = [(v[places], None if valid is None else valid[places]) for v, valid in columns]
    return keys.take(pa.array(places)), some
