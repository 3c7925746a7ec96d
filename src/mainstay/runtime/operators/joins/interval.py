"""Interval joins: rows whose times lie in an interval of each other. Regular joins: any rows of a
key.

Both sides are kept in panes of time. A batch is matched with those panes of the other side that it
may reach, and then kept itself. A pane goes when no row that is in time can reach it any more.
Where rows that match nothing are emitted, that happens when their pane goes.

This is a hot file (benchmarks/interval_join.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.joins import LEFT, RIGHT, Interval, JoinShape
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.joins.base import Join, TimedJoin
from mainstay.runtime.operators.joins.matching import Mask, Numbers
from mainstay.runtime.operators.joins.sides import Arrived, Asking, Kept
from mainstay.runtime.own_states import PANES
from mainstay.runtime.watermarks import END_US
from mainstay.state.grouping import Grouper
from mainstay.state.rows import Chunk

FOREVER = 0
"""The pane of rows that never go."""


class MatchingJoin(Join):
    """Matches what arrives with what is kept, and keeps it."""

    def open_states(self, handles: Any) -> None:
        self.kept = [Kept(self.shape, side, handles) for side in (LEFT, RIGHT)]

    def is_empty(self) -> bool:
        return not any(kept.rows.panes() for kept in self.kept)

    def match(self, arrived: Arrived, side: int, low: Numbers, high: Numbers) -> Mask:
        """Emit what some rows come to with those kept of the other side; which have matched."""
        have_matched = np.zeros(len(arrived), np.bool_)
        other = self.kept[1 - side]
        asking = Asking(arrived, low, high)
        for pane in self.panes_between(other, low, high):
            for chunk in other.rows.chunks(pane, arrived.keys):
                self._match_chunk(arrived, side, asking, chunk, pane, have_matched)
        if self.shape.how == "semi" and side == LEFT:
            chosen = arrived.only(have_matched)
            self.emit(chosen.keys, chosen.rows, None)
        return have_matched

    def panes_between(self, kept: Kept, low: Numbers, high: Numbers) -> list[int]:
        """The panes of a side that may have what rows ask for, from one time to another."""
        raise NotImplementedError

    def found(
        self, arrived: Arrived, side: int, chunk: Chunk, asking: Asking
    ) -> Iterator[tuple[Numbers, Numbers]]:
        """The rows that have arrived with the places of a chunk that they match."""
        return self.kept[1 - side].matches(chunk, asking)

    def _match_chunk(
        self,
        arrived: Arrived,
        side: int,
        asking: Asking,
        chunk: Chunk,
        pane: int,
        have_matched: Mask,
    ) -> None:
        other = self.kept[1 - side]
        for rows, places in self.found(arrived, side, chunk, asking):
            have_matched[rows] = True
            if other.is_flagged:
                fresh = other.flag(chunk, pane, places)
                if self.shape.how == "semi":
                    self._emit_once(chunk, fresh, other)
            if self.shape.how not in ("semi", "anti"):
                self._emit_pairs(arrived, rows, chunk, places, side)

    def _emit_once(self, chunk: Chunk, which: Mask, kept: Kept) -> None:
        if which.any():
            where = pa.array(which)
            self.emit(chunk.keys.filter(where), kept.visible(chunk.rows).filter(where), None)

    def _emit_pairs(
        self, arrived: Arrived, rows: Numbers, chunk: Chunk, places: Numbers, side: int
    ) -> None:
        taken = pa.array(rows)
        ours = arrived.rows.take(taken)
        theirs = self.kept[1 - side].visible(chunk.rows).take(pa.array(places))
        left, right = (ours, theirs) if side == LEFT else (theirs, ours)
        self.emit(arrived.keys.take(taken), left, right)

    def is_done(self, side: int, have_matched: Mask) -> Mask | None:
        """Which rows are of no more use because they have matched: one match is enough."""
        return have_matched if self.shape.how in ("semi", "anti") and side == LEFT else None


class IntervalJoin(MatchingJoin, TimedJoin):
    """Rows of both sides whose times lie in an interval of each other."""

    def __init__(self, shape: JoinShape, interval: Interval) -> None:
        super().__init__(shape)
        self._interval = interval
        pads = shape.pads(LEFT) or shape.pads(RIGHT)
        self.pane_us = interval.pane_us(is_padded=pads)
        longest = max(interval.life(LEFT), interval.life(RIGHT))
        self.hold_us = longest + (self.pane_us if pads else 0)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        widths = context.lists[PANES.name]
        if set(widths.get()) - {self.pane_us}:
            # The interval was another one.
            for kept in self.kept:
                kept.repane(self.pane_us)
        widths.update([self.pane_us])

    def what(self) -> str:
        return "an interval join"

    def panes_between(self, kept: Kept, low: Numbers, high: Numbers) -> list[int]:
        first, last = int(low.min()), int(high.max())
        return [pane for pane in kept.rows.panes() if first - self.pane_us < pane <= last]

    def are_late(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> Mask | None:
        times = self.readers[side].times_of(batch)
        is_late: Mask = times + self._interval.life(side) < self.fired.of(keys)
        return is_late if is_late.any() else None

    def bounds(self, arrived: Arrived, side: int) -> tuple[Numbers, Numbers]:
        """From when to when what rows of a side match lies."""
        return self._interval.bounds(side, arrived.times)

    def lasts(self, arrived: Arrived, side: int) -> Numbers:
        """The time of the last row that each may match."""
        return arrived.times + self._interval.reach(side)

    def panes_of(self, arrived: Arrived, side: int) -> Numbers:
        return arrived.times - arrived.times % self.pane_us

    def pane_reach(self, side: int) -> int:
        """How much later than its end the last row comes that a pane may match."""
        return self._interval.reach(side)

    def take(self, arrived: Arrived, side: int) -> None:
        have_matched = self.match(arrived, side, *self.bounds(arrived, side))
        may_match = self.lasts(arrived, side) >= self.fired.of(arrived.keys)
        if not may_match.all():
            alone = arrived.only(~may_match & ~have_matched)
            self.unmatched(side, alone.keys, alone.rows)
        if (done := self.is_done(side, have_matched)) is not None:
            may_match &= ~done
        rest, matched = arrived.only(may_match), have_matched[may_match]
        if len(rest):
            self.kept[side].keep(rest, self.panes_of(rest, side), matched)

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        if (time_us := watermark.time_us) is None:
            return
        last = -END_US
        for side, kept in enumerate(self.kept):
            reach = self.pane_reach(side)
            for pane in kept.rows.panes():
                ends = pane + self.pane_us + reach
                if ends > time_us and time_us < END_US:
                    break
                last = max(last, ends)
                yield from self._let_go(kept, pane)
        # Behind the last watermark nothing is late yet but for what has gone.
        self.fired.advance(time_us if time_us < END_US else max(last, self.fired.lowest))

    def _let_go(self, kept: Kept, pane: int) -> Iterator[None]:
        """A pane that nothing can match any more goes, and leaves what has matched nothing."""
        if self.shape.pads(kept.side):
            for chunk in kept.rows.chunks(pane):
                alone = pa.array(~kept.flags(chunk, pane))
                rows = kept.visible(chunk.rows).filter(alone)
                self.unmatched(kept.side, chunk.keys.filter(alone), rows)
                yield
        kept.drop(pane)


class RegularJoin(MatchingJoin):
    """Any rows of a key. They are kept for ever, or for some time of the wall clock."""

    def __init__(self, shape: JoinShape, ttl_us: int | None) -> None:
        super().__init__(shape)
        self._ttl_us = ttl_us
        self._grouper = Grouper()
        self._pane_us = 1 if ttl_us is None else max(ttl_us // 8, 1)

    def what(self) -> str:
        return "a join of any rows of a key"

    def panes_between(self, kept: Kept, low: Numbers, high: Numbers) -> list[int]:
        return kept.rows.panes()

    def take(self, arrived: Arrived, side: int) -> None:
        have_matched = self.match(arrived, side, arrived.times, arrived.times)
        rest, matched = arrived, have_matched
        if self.shape.how == "semi" and side == RIGHT:
            rest = self._first_of_keys(arrived)
            matched = np.zeros(len(rest), np.bool_)
        elif (done := self.is_done(side, have_matched)) is not None:
            rest, matched = arrived.only(~done), have_matched[~done]
        if len(rest):
            self.kept[side].keep(rest, self._pane(), matched)

    def _first_of_keys(self, arrived: Arrived) -> Arrived:
        """Rows of keys that the current pane does not have yet, one of each: all that is asked of
        them is whether there are any."""
        kept = self.kept[RIGHT]
        is_known = np.zeros(len(arrived), np.bool_)
        asking = Asking(arrived, arrived.times, arrived.times)
        for chunk in kept.rows.chunks(self._pane(), arrived.keys):
            for rows, _ in kept.matches(chunk, asking):
                is_known[rows] = True
        fresh = arrived.only(~is_known)
        firsts = np.zeros(len(fresh), np.bool_)
        firsts[self._grouper.group(fresh.keys).rows] = True
        return fresh.only(firsts)

    def _pane(self) -> int:
        if self._ttl_us is None:
            return FOREVER
        now_us = self.context.row_context.now_us()
        return now_us - now_us % self._pane_us

    # ------------------------------------------------------------ time to live

    def _gone_at(self) -> int | None:
        """When the oldest rows are to go, by the wall clock; None if none are."""
        panes = [pane for kept in self.kept for pane in kept.rows.panes()[:1]]
        if self._ttl_us is None or not panes:
            return None
        return min(panes) + self._pane_us + self._ttl_us

    def is_due(self) -> bool:
        gone_at = self._gone_at()
        return gone_at is not None and gone_at <= self.context.row_context.now_us()

    def on_clock(self) -> Iterator[None]:
        assert self._ttl_us is not None
        self.flush()
        now_us = self.context.row_context.now_us()
        for kept in self.kept:
            for pane in kept.rows.panes():
                if pane + self._pane_us + self._ttl_us <= now_us:
                    kept.drop(pane)
                    yield

    def deadline(self) -> float | None:
        gone_at = self._gone_at()
        if gone_at is None:
            return None
        left_s = (gone_at - self.context.row_context.now_us()) / 1_000_000
        return self.context.clock.monotonic() + max(left_s, 0.0)
