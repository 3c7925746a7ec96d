"""Sessions, aggregated by key: rows into spans that grow and merge, until nothing comes for a gap.

The rows of a batch and the sessions that their keys have become sessions all at once, in columns: a
session that is left of several keeps the earliest start, and the others leave the state. A session
is due at its end, or by as much later as rows may come late.

Sessions fire in the order of time. Those of one instant leave the state together, and the key-group
is said to have fired by then, so that there may be a cut between any two instants.

This is a hot file (benchmarks/sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.aggregate import Gathering
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.due_times import DueTimes
from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.gaps import Gaps
from mainstay.runtime.operators.gathering import LINGER_S
from mainstay.runtime.operators.slicing import TIMESTAMP, RowTimes, as_bounds, held
from mainstay.runtime.operators.window import EMITTED_ROWS, Emission
from mainstay.runtime.sessions import merged, ordered, rounds, too_late
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import END_US, EVER_US, due_until
from mainstay.runtime.windows import Times
from mainstay.state.accumulating import (
    Accumulating,
    Column,
)
from mainstay.state.aggregates import Accumulator, Aggregation
from mainstay.state.grouping import Groups
from mainstay.state.span_places import Places
from mainstay.state.spans import SpansHandle

SESSIONS = "sessions"
"""The name of the state."""
END = Accumulator("window_end", "max", TIMESTAMP.arrow, None, "window_end")
"""What is kept of a session beside its aggregates. No aggregate of windows has this name."""
_BUCKETS = 64
"""For how many points of time within a gap the sessions that may be due are kept apart."""
_WIDTH_US = 1_000_000
"""The distance of these points where rows have gaps of their own."""

Mask = npt.NDArray[np.bool_]


class SessionByKey(Gathering):
    """Aggregates of each key in sessions."""

    may_be_cut = True

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        gaps: Gaps,
        times: RowTimes,
        emission: Emission,
        order: tuple[int, ...],
        visible: tuple[int, ...],
    ) -> None:
        super().__init__(key, aggregation, schema)
        self._gaps = gaps
        self._times = times
        self._emission = emission
        self._order = order
        self._visible = list(visible)
        self._is_processing = times.column is None
        self._emitted_again_us = (emission.updates and emission.lateness_us) or EVER_US
        """How long after a session has fired it may be due again."""
        self._stamp = 0
        """The time of what is gathered, in processing time."""
        self._due_us: int | None = None
        """When the next session is due, in processing time."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._state: SpansHandle = context.keyed.handles[SESSIONS]
        self._fired = EndingTimes(context)
        fixed = self._gaps.fixed
        self._due = DueTimes(_WIDTH_US if fixed is None else fixed // _BUCKETS)
        every = self._state.all()
        for first in range(0, len(every), EMITTED_ROWS):
            places = every[first : first + EMITTED_ROWS]
            ends = self._state.columns(places)[-1][0]
            self._due.set(places, self._instants(self._state.keys(places), ends))
        self._note_due()

    def _instants(self, keys: pa.Array, ends: Times) -> Times:
        """When sessions are to be emitted next."""
        last: Times = ends + self._emission.lateness_us
        if not self._emission.updates or not self._emission.lateness_us:
            return last
        return np.where(ends > self._fired.of(keys), ends, last)

    # ------------------------------------------------------------ rows

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if self._is_processing:
            self._stamp_gathered()
        super().process(batch, port)

    def _stamp_gathered(self) -> None:
        # Never back behind what has fired, whatever the clock says: no row is late.
        now = max(self.context.row_context.now_us(), self._fired.highest)
        if self._gathered and now - self._stamp < LINGER_S * 1_000_000:
            return
        self.flush()
        self._stamp = now

    def flush(self, *, idle: bool = True) -> bool:
        is_taken = super().flush(idle=idle)
        if is_taken:
            self._note_due()
        return is_taken

    def take(self, batch: pa.RecordBatch) -> None:
        """Let rows join sessions, but for those that come too late."""
        known: Mask | None = None
        if self._is_processing:
            starts = np.full(batch.num_rows, self._stamp, np.int64)
        else:
            starts, known = self._times.of(batch)
        gaps: Any = self._gaps.of(batch.select(self._visible), self.context)
        ends: Times = starts + gaps
        known = known if self._is_processing else held(ends, known)
        late = None if self._is_processing else self._late(batch, starts, ends, known)
        if late is not None and late.any():
            self._put_aside(batch.take(pa.array(np.flatnonzero(late))))
            batch = batch.take(pa.array(np.flatnonzero(~late)))
            starts, ends = starts[~late], ends[~late]
        if batch.num_rows:
            self._join(batch, starts, ends)

    def _late(
        self, batch: pa.RecordBatch, starts: Times, ends: Times, known: Mask | None
    ) -> Mask | None:
        """Which rows come too late, or have no time; None where none does."""
        lateness = self._emission.lateness_us
        if known is None and int(ends.min()) + lateness > self._fired.highest:
            return None
        keys = self.key_column(batch)
        is_suspect = ends + lateness <= self._fired.of(keys)
        without = np.zeros(len(ends), np.bool_) if known is None else ~known
        is_suspect &= ~without
        if not is_suspect.any():
            return without
        groups = self._grouper.group(keys)
        codes = np.arange(len(keys)) if groups.codes is None else groups.codes
        of_stored, places = self._state.of(keys.take(pa.array(groups.rows)))
        stored = (of_stored, self._state.starts(places), self._state.columns(places)[-1][0])
        # A row without a time neither joins a session nor begins one.
        meant = np.flatnonzero(~without)
        late = without
        late[meant] = too_late(codes[meant], starts[meant], ends[meant], is_suspect[meant], stored)
        return late

    def _put_aside(self, rows: pa.RecordBatch) -> None:
        self.late_rows += rows.num_rows
        self.sides[LATE](rows.select(self._visible))

    def _join(self, batch: pa.RecordBatch, starts: Times, ends: Times) -> None:
        """Sessions of rows and of what their keys have, in the place of the latter."""
        keys = self.key_column(batch)
        by_key = self._grouper.group(keys)
        codes = np.arange(len(keys)) if by_key.codes is None else by_key.codes
        keys = keys if by_key.codes is None else keys.take(pa.array(by_key.rows))
        of_stored, places = self._state.of(keys)
        kept, kept_starts = self._state.columns(places), self._state.starts(places)
        spans = merged(
            np.concatenate([codes, of_stored]),
            np.concatenate([starts, kept_starts]),
            np.concatenate([ends, kept[-1][0]]),
        )
        rows, of_stored = np.split(spans.of, [len(codes)])
        # Sessions that no row has joined stay as they are.
        is_changed = np.zeros(len(spans.codes), np.bool_)
        is_changed[rows] = True
        number = np.cumsum(is_changed) - 1
        is_met = is_changed[of_stored]
        stored = _Stored(
            places[is_met],
            kept_starts[is_met],
            [some_of(column, is_met) for column in kept],
            number[of_stored[is_met]],
        )
        codes, ends = spans.codes[is_changed], spans.ends[is_changed]
        columns = self._columns(batch, number[rows], ends, stored, keys, codes)
        self._replace(keys, codes, spans.starts[is_changed], ends, columns, stored)

    def _columns(
        self,
        batch: pa.RecordBatch,
        of: npt.NDArray[np.int64],
        ends: Times,
        stored: _Stored,
        keys: pa.Array,
        codes: npt.NDArray[np.int64],
    ) -> list[Column]:
        """What is to be kept for each session: of the rows, and of those that it replaces."""
        first = np.empty(len(ends), np.int64)
        first[of[::-1]] = np.arange(len(of) - 1, -1, -1)
        with self.blamed(keys, codes):
            columns = self.combined_apart(batch, Groups(first, of))
        order = ordered(stored.of, stored.starts)
        for some in rounds(stored.of[order]):
            met, into = order[some], stored.of[order[some]]
            with self.blamed(keys, codes[into]):
                merge_into(columns, into, stored.columns, met, self._parts)
        return [*columns, (ends, None)]

    def _replace(
        self,
        keys: pa.Array,
        codes: npt.NDArray[np.int64],
        starts: Times,
        ends: Times,
        columns: list[Column],
        stored: _Stored,
    ) -> None:
        """Keep sessions in the place of those that they are made of."""
        is_same = stored.starts == starts[stored.of]
        places = np.full(len(starts), -1, np.int64)
        places[stored.of[is_same]] = stored.places[is_same]
        absorbed = stored.places[~is_same]
        self._due.forget(absorbed)
        self._state.remove(absorbed)
        is_there = places >= 0
        self._state.put(places[is_there], [some_of(column, is_there) for column in columns])
        is_new = ~is_there
        some = [some_of(column, is_new) for column in columns]
        places[is_new] = self._state.add(keys, codes[is_new], starts[is_new], some)
        own = keys.take(pa.array(codes))
        self._due.set(places, self._instants(own, ends))
        if self._emission.updates and self._emission.lateness_us:
            is_late = np.flatnonzero(ends <= self._fired.of(own))
            some = [some_of(column, is_late) for column in columns]
            final = np.zeros(len(is_late), np.bool_)
            self._emit(own.take(pa.array(is_late)), starts[is_late], some, final)

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
        """Emit all sessions that are due by a time."""
        until = due_until(now_us)
        for places, instants in self._due.due(until, EMITTED_ROWS, self._emitted_again_us):
            yield from self._firesome_of(places, instants, until)
        if now_us < END_US:
            # Not at the end of time: the job may go on with more input.
            self._fired.advance(now_us)
        self._note_due()

    def _firesome_of(self, places: Places, instants: Times, now_us: int) -> Iterator[None]:
        """Emit sessions, in the order of time, and forget those that take no more rows."""
        for start, end in pairwise(_edges(instants, EMITTED_ROWS)):
            self.may_be_cut = False
            yield from self._fire_part(places[start:end], instants[start:end], now_us)
            self._fired.advance(int(instants[end - 1]))
            self.may_be_cut = True
            yield

    def _fire_part(self, places: Places, instants: Times, now_us: int) -> Iterator[None]:
        for first in range(0, len(places), EMITTED_ROWS):
            if first:
                yield
            part = slice(first, first + EMITTED_ROWS)
            some = places[part]
            columns = self._state.columns(some)
            last: Times = columns[-1][0] + self._emission.lateness_us
            is_final = instants[part] == last
            again = ~is_final
            self._due.set(some[again], last[again])
            # What is final by then as well is emitted once.
            is_meant = is_final | (last > now_us)
            keys = self._state.keys(some).take(pa.array(np.flatnonzero(is_meant)))
            starts = self._state.starts(some)[is_meant]
            self._emit(keys, starts, [some_of(c, is_meant) for c in columns], is_final[is_meant])
            self._state.remove(some[is_final])

    def _emit(self, keys: pa.Array, starts: Times, columns: list[Column], is_final: Mask) -> None:
        if not len(keys):
            return
        is_one = len(self._key.columns) == 1
        bounds = [as_bounds(starts), as_bounds(columns[-1][0])]
        own = [keys] if is_one else keys.flatten()
        found = [*own, *bounds, *self.outputs(keys, columns), pa.array(is_final)]
        arrays = [found[number] for number in self._order]
        self.out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    # ------------------------------------------------------------ the wall clock

    def is_due(self) -> bool:
        return self._due_us is not None and self.context.row_context.now_us() >= self._due_us

    def on_clock(self) -> Iterator[None]:
        self.flush()
        yield from self._fire(self.context.row_context.now_us())

    def deadline(self) -> float | None:
        if self._due_us is None:
            return None
        left_us = self._due_us - self.context.row_context.now_us()
        return self.context.clock.monotonic() + max(0, left_us) / 1_000_000

    def _note_due(self) -> None:
        if self._is_processing:
            self._due_us = self._due.first()

    # ------------------------------------------------------------ snapshots

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()
        self._fired.store()


class _Stored:
    """Stored sessions that rows have met, and which new one each becomes part of."""

    __slots__ = ("columns", "of", "places", "starts")

    def __init__(
        self, places: Places, starts: Times, columns: list[Column], of: npt.NDArray[np.int64]
    ) -> None:
        self.places = places
        self.starts = starts
        self.columns = columns
        self.of = of


def _edges(instants: Times, rows: int) -> list[int]:
    """Where ascending times are cut into parts of so many rows or a few more: never between two
    that are equal."""
    found = [0]
    while found[-1] < len(instants):
        last = min(found[-1] + rows, len(instants)) - 1
        found.append(int(np.searchsorted(instants, instants[last], side="right")))
    return found


def merge_into(
    columns: list[Column],
    into: Any,
    kept: Sequence[Column],
    met: Any,
    parts: Sequence[Accumulating],
) -> None:
    """Merge what was kept, which is older, into some places of new columns."""
    for number, part in enumerate(parts):
        values, valid = columns[number]
        found, is_valid = part.merge(some_of(kept[number], met), some_of((values, valid), into))
        if not values.flags.writeable:
            values = values.copy()
        values[into] = found
        if valid is not None:
            valid[into] = True if is_valid is None else is_valid
        columns[number] = values, valid


def some_of(column: Column, which: Any) -> Column:
    values, valid = column
    return values[which], None if valid is None else valid[which]
