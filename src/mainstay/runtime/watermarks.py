"""Watermarks: how far event time has come, as a promise that travels with the rows.

A watermark says that no row after it is older than its time (but for rows that come later than
the declared bound). A source makes one from the rows of its splits; a task has the
lowest of its channels. What is idle or exhausted holds nothing back. What a source has
told is part of snapshots, so that a restored job goes on from there.

Times are microseconds since 1970, in UTC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.runtime.messages import TimeMark

START_US = -62_135_596_800_000_000
"""The beginning of time, as Python knows it."""
END_US = 253_402_300_799_999_999
"""The end of time, as Python knows it."""
EVER_US = 1 << 62
"""Beyond all that may be due, also what ends after the end of time."""
LAST = TimeMark(END_US)
"""After it there is no row."""
EVERY_S = 0.2
"""A source makes no more than one watermark in this time, unless it ends."""


def due_until(time_us: int) -> int:
    """Up to when things are due at a watermark: at the end of time everything that is left is."""
    return EVER_US if time_us >= END_US else time_us


def newest_in(batch: pa.RecordBatch, column: int) -> int | None:
    """The newest time among rows; None where no row has a time."""
    newest: int | None = pc.max(batch.column(column)).cast(pa.int64()).as_py()
    return newest


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """How a source makes watermarks: from which column, and how late its rows may be."""

    column: int
    delay_us: int
    idle_s: float | None = None
    every_s: float = EVERY_S
    from_rows: bool = True
    """Whether rows move event time; otherwise what readers promise does, and nothing else."""


class SplitClock:
    """How far event time has come in one split."""

    __slots__ = ("is_idle", "newest_us", "promised_us", "quiet_since")

    def __init__(self, newest_us: int | None = None, promised_us: int | None = None) -> None:
        self.newest_us = newest_us
        """The newest time of any row so far."""
        self.promised_us = promised_us
        """What the reader itself has promised."""
        self.quiet_since: float | None = None
        """When it was first asked in vain; None if it gave rows the last time it was asked."""
        self.is_idle = False
        """Whether the reader itself has said that nothing comes for now."""

    def kept(self) -> dict[str, int]:
        """What a snapshot keeps of it."""
        times = {"newest_us": self.newest_us, "promised_us": self.promised_us}
        return {name: time for name, time in times.items() if time is not None}

    def asked(self, now: float, *, gave: bool) -> None:
        """A split that was not asked is not idle: it may be held back."""
        if gave:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = now

    def saw(self, batch: pa.RecordBatch, column: int) -> None:
        newest = newest_in(batch, column)
        if newest is not None and (self.newest_us is None or newest > self.newest_us):
            self.newest_us = newest

    def time(self, spec: WatermarkSpec) -> int | None:
        """The watermark of the split; None before its first row."""
        newest_us = self.newest_us if spec.from_rows else None
        # A row of the end of time is no end: others may follow it.
        from_rows = None if newest_us is None else min(newest_us - spec.delay_us, END_US - 1)
        known = [time for time in (from_rows, self.promised_us) if time is not None]
        return max(known, default=None)


class SourceClock:
    """The watermark of one source subtask."""

    def __init__(self, spec: WatermarkSpec) -> None:
        self._spec = spec
        self._told: TimeMark | None = None
        self._told_at: float | None = None
        self._newest_us: int | None = None
        """The latest time that it has told, also before a restore: it never goes back."""
        self._ended_us: int | None = None
        """How far the splits that have ended had come."""

    def ended(self, split: SplitClock) -> None:
        """A split was read to its end. What it came to is told when no other is being read: one
        that ends soon after it began would move nothing else."""
        known = [time for time in (self._ended_us, split.time(self._spec)) if time is not None]
        self._ended_us = max(known, default=None)

    def kept(self, has_splits: bool) -> TimeMark:
        """What a snapshot keeps: what it has told last, or is about to tell."""
        return self.told if has_splits or self._to_tell is None else TimeMark(self._to_tell)

    @property
    def _to_tell(self) -> int | None:
        """How far splits that have ended have brought it beyond what it has told."""
        ended, told = self._ended_us, self._newest_us
        return ended if ended is not None and (told is None or ended > told) else None

    def restore(self, time_us: int | None) -> None:
        """It had come as far before."""
        self._newest_us = time_us

    @property
    def told(self) -> TimeMark:
        """What it has told last."""
        return self._told or TimeMark(self._newest_us)

    def next(self, splits: Iterable[SplitClock], now: float) -> TimeMark | None:
        """What is to be said now; None if it is nothing new, or too soon.

        A source that is idle no more says so at once: others do not wait for it until then.
        """
        was_idle = self._told is not None and self._told.is_idle
        is_soon = self._told_at is not None and now < self._told_at + self._spec.every_s
        if is_soon and not was_idle:
            return None
        found = self._current(list(splits), now)
        if found is None or found == self._told or (is_soon and found.is_idle):
            return None
        self._told, self._told_at = found, now
        self._newest_us = found.time_us
        return found

    def _current(self, splits: list[SplitClock], now: float) -> TimeMark | None:
        before = self._newest_us
        active = [split for split in splits if not self._is_idle(split, now)]
        if not active and self._to_tell is not None:
            # Not idle yet: what an idle one says does not bring the others of the source on.
            return TimeMark(self._to_tell)
        if not active:
            return TimeMark(before, is_idle=True)
        times = [split.time(self._spec) for split in active]
        if any(time is None for time in times):
            lowest = None
        else:
            lowest = min(time for time in times if time is not None)
        if lowest is None or (before is not None and lowest < before):
            lowest = before  # time never goes back
        return None if lowest is None and self._told is None else TimeMark(lowest)

    def _is_idle(self, split: SplitClock, now: float) -> bool:
        idle_s, since = self._spec.idle_s, split.quiet_since
        if split.is_idle:
            return True
        return idle_s is not None and since is not None and now >= since + idle_s

    def deadline(self, splits: Iterable[SplitClock], now: float) -> float | None:
        """When a split may turn idle, or a watermark that was too soon is due."""
        times = [] if self._told_at is None else [self._told_at + self._spec.every_s]
        if self._spec.idle_s is not None:
            quiet = (split.quiet_since for split in splits)
            times += [since + self._spec.idle_s for since in quiet if since is not None]
        return min((time for time in times if time > now), default=None)


class GateClock:
    """The watermark of a task: the lowest of its channels that are not idle or at their end.

    A task may have a thousand channels, and each tells the time a few times a second. So the times
    of those that hold it back are counted, and the lowest is known without a look at the others.
    """

    def __init__(self, channels: int) -> None:
        self._times: list[int | None] = [None] * channels
        self._is_out = [False] * channels
        self._has_ended = [False] * channels
        self._holding: Counter[int | None] = Counter([None] * channels)
        """How many channels that hold it back are at each time; None is that of those that have
        not told any."""
        self._lowest: list[int] = []
        """A heap with each of these times, and others that nobody is at any more."""
        self.current = TimeMark(None)
        self._is_used = False

    def on_watermark(self, channel: int, watermark: TimeMark) -> TimeMark | None:
        """Take the watermark of a channel; what the task has to say on account of it, if any."""
        self._is_used = True
        self._count(channel, -1)
        if watermark.time_us is not None:
            self._times[channel] = watermark.time_us
        self._is_out[channel] = watermark.is_idle
        self._count(channel, +1)
        return self._changed()

    def on_end(self, channel: int) -> TimeMark | None:
        self._count(channel, -1)
        self._has_ended[channel] = True
        return self._changed() if self._is_used else None

    def _count(self, channel: int, step: int) -> None:
        """One more or one less that holds time back where a channel is, if it does."""
        time = self._times[channel]
        # One that has come to the end of time holds nothing back, and brings nobody there: an idle
        # one may still have rows, which would all be late.
        if self._has_ended[channel] or self._is_out[channel] or time == END_US:
            return
        self._holding[time] += step
        if time is not None and step > 0 and self._holding[time] == 1:
            heappush(self._lowest, time)
        if not self._holding[time]:
            del self._holding[time]

    def _changed(self) -> TimeMark | None:
        known = (self.current.time_us, self._held_at())
        lowest = max((time for time in known if time is not None), default=None)
        mark = TimeMark(lowest, is_idle=not self._holding and lowest != END_US)
        if mark == self.current:
            return None
        self.current = mark
        return mark

    def _held_at(self) -> int | None:
        """The lowest time that anybody holds it back at; None while somebody has told none."""
        if not self._holding:
            return self._furthest()
        if None in self._holding:
            return None
        while self._lowest[0] not in self._holding:
            heappop(self._lowest)
        return self._lowest[0]

    def _furthest(self) -> int | None:
        """All have stopped: the furthest would be alone, had it stopped last."""
        channels = zip(self._times, self._has_ended, strict=True)
        left = [time for time, has_ended in channels if not has_ended and time != END_US]
        return max((time for time in left or self._times if time is not None), default=None)
