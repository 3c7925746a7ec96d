"""As-of joins: each left row with the newest right row of its key that is not newer.

A left row waits until no right row can come that it would rather have: until event time is beyond
its own. Which left rows have gone out says the time up to which its key-group has fired, so the
state is not written for it; a pane goes when all of its rows have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.joins import LEFT, RIGHT, SIDES, JoinShape, rows_info
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.joins.base import TimedJoin
from mainstay.runtime.operators.joins.matching import (
    Mask,
    Numbers,
    Sorted,
    are_equal,
    are_exact,
    words_for,
)
from mainstay.runtime.operators.joins.sides import Arrived, Note
from mainstay.runtime.watermarks import END_US, due_until
from mainstay.state.codes import codes_of
from mainstay.state.info import StateInfo
from mainstay.state.rows import Chunk, RowsHandle

PANE_US = 1_000_000
NEWEST = "newest"
ONLY = 0
"""The one pane of the newest rows."""


def newest_state(shape: JoinShape) -> StateInfo:
    """The newest right row of each key among those that are older than the watermark."""
    return rows_info(NEWEST, [(field.name, field.type) for field in shape.sides[RIGHT].fields])


class AsOfJoin(TimedJoin):
    """Left rows with the newest right row that is not newer, nor older than ``max_age_us``."""

    def __init__(self, shape: JoinShape, max_age_us: int | None) -> None:
        super().__init__(shape)
        self._max_age_us = max_age_us
        # Without an age panes soon become the newest rows.
        self._right_us = max(PANE_US, (max_age_us or 0) // 8)

    def open_states(self, handles: Any) -> None:
        self.kept: list[RowsHandle] = [handles[name] for name in SIDES]
        self._newest: RowsHandle | None = handles.get(NEWEST)
        self._is_exact = are_exact(self.shape.sides[LEFT].key.type.arrow)

    def what(self) -> str:
        return "an as-of join"

    def is_empty(self) -> bool:
        kept = [*self.kept] if self._newest is None else [*self.kept, self._newest]
        return not any(each.panes() for each in kept)

    def are_late(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> Mask | None:
        """A left row is late when those of its time have gone out. A right one may be what later
        left ones ask for, until it is too old."""
        times = self.readers[side].times_of(batch)
        if side == RIGHT:
            if self._max_age_us is None:
                return None
            times = times + self._max_age_us
        is_late: Mask = times < self.fired.of(keys)
        return is_late if is_late.any() else None

    def take(self, arrived: Arrived, side: int) -> None:
        width = PANE_US if side == LEFT else self._right_us
        self.kept[side].append(arrived.keys, arrived.rows, arrived.times - arrived.times % width)

    # ------------------------------------------------------------ time

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        if (time_us := watermark.time_us) is None:
            return
        left, last = self.kept[LEFT], self.fired.lowest
        until = due_until(time_us)
        for pane in left.panes():
            if pane >= until:
                break
            for chunk in left.chunks(pane):
                last = max(last, self._fire(chunk, until))
                yield
            if pane + PANE_US <= until:
                left.drop(pane)
        self._age(time_us)
        self.fired.advance(time_us if time_us < END_US else last)

    def _fire(self, chunk: Chunk, until_us: int) -> int:
        """Emit the left rows of a chunk that are due; just after the last of them."""
        times = self.readers[LEFT].times(chunk.rows)
        due = (times >= self.fired.of(chunk.keys)) & (times < until_us)
        if not due.any():
            return self.fired.lowest
        where = pa.array(due)
        rows = Arrived(
            chunk.keys.filter(where),
            words_for(chunk.keys)[due],
            times[due],
            chunk.rows.filter(where),
        )
        self._look_up(rows)
        return int(rows.times.max()) + 1

    def _look_up(self, asking: Arrived) -> None:
        best = np.full(len(asking), -1, np.int64)
        best_time = np.full(len(asking), -END_US * 2, np.int64)
        sources: list[Chunk] = []
        base = 0
        for chunk in self._candidates(asking):
            places = self._newest_in(chunk, asking)
            times = self.readers[RIGHT].times(chunk.rows)
            found = np.where(places >= 0, times[places], -END_US * 2)
            # Of equal times the one that came later counts.
            better = (places >= 0) & (found >= best_time)
            best[better], best_time[better] = base + places[better], found[better]
            sources.append(chunk)
            base += len(chunk)
        if self._max_age_us is not None:
            best[best_time < asking.times - self._max_age_us] = -1
        self._emit_found(asking, best, sources)

    def _candidates(self, asking: Arrived) -> Iterator[Chunk]:
        """Chunks that may have what rows ask for, older ones first."""
        if self._newest is not None:
            yield from self._newest.chunks(ONLY, asking.keys)
        right, newest = self.kept[RIGHT], int(asking.times.max())
        for pane in right.panes():
            if pane <= newest:
                yield from right.chunks(pane, asking.keys)

    def _newest_in(self, chunk: Chunk, asking: Arrived) -> Numbers:
        """For each row the place in a chunk of what it asks for; -1 where there is none."""
        index = self._index(chunk)
        found = index.newest(asking.words, asking.times)
        places = np.where(found >= 0, index.order[found], -1)
        if not self._is_exact and (places >= 0).any():
            rows = np.flatnonzero(places >= 0)
            theirs = chunk.keys.take(pa.array(places[rows]))
            same = are_equal(asking.keys.take(pa.array(rows)), theirs)
            for row in rows[~same].tolist():
                places[row] = self._newest_one(chunk, asking, row)
        return places

    def _newest_one(self, chunk: Chunk, asking: Arrived, row: int) -> int:
        """The same for one row, where another key has the same hash: that happens hardly ever."""
        key = pa.array([asking.keys[row].as_py()] * len(chunk), chunk.keys.type)
        times = self.readers[RIGHT].times(chunk.rows)
        found = np.flatnonzero(are_equal(chunk.keys, key) & (times <= asking.times[row]))
        # Of equal times the one that came later counts.
        return int(found[np.lexsort((found, times[found]))[-1]]) if len(found) else -1

    def _index(self, chunk: Chunk) -> Sorted:
        if chunk.note is None:
            chunk.note = Note(Sorted(words_for(chunk.keys), self.readers[RIGHT].times(chunk.rows)))
        index: Sorted = chunk.note.index
        return index

    def _emit_found(self, asking: Arrived, best: Numbers, sources: list[Chunk]) -> None:
        has_found = best >= 0
        chosen = asking.only(has_found)
        if len(chosen):
            right = pa.Table.from_batches([chunk.rows for chunk in sources])
            taken = right.take(pa.array(best[has_found])).combine_chunks()
            for rows in taken.to_batches():
                self.emit(chosen.keys, chosen.rows, rows)
        alone = asking.only(~has_found)
        self.unmatched(LEFT, alone.keys, alone.rows)

    # ------------------------------------------------------------ right rows that have aged

    def _age(self, time_us: int) -> None:
        """Of right rows that are older than the watermark only the newest of each key is of use."""
        right = self.kept[RIGHT]
        for pane in right.panes():
            end = pane + self._right_us
            if self._max_age_us is not None:
                if end + self._max_age_us <= time_us:
                    right.drop(pane)
            elif end <= time_us:
                self._fold(*right.rows(pane))
                right.drop(pane)

    def _fold(self, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Keep the newest row of each key, among these and what was the newest before."""
        assert self._newest is not None
        before = self._newest.chunks(ONLY, keys)
        all_keys = pa.concat_arrays([*(chunk.keys for chunk in before), keys])
        all_rows = pa.concat_batches([*(chunk.rows for chunk in before), rows])
        times, codes = self.readers[RIGHT].times(all_rows), codes_of(all_keys)
        order = np.lexsort((np.arange(len(codes)), times, codes))
        is_last = np.append(codes[order][1:] != codes[order][:-1], True)
        last = order[is_last]
        # What was the newest before and is so still need not be written.
        fresh = pa.array(last[last >= len(all_keys) - len(keys)])
        if len(fresh):
            self._newest.put(all_keys.take(fresh), all_rows.take(fresh), ONLY)
