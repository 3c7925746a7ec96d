"""Watermarks: how far event time has come, as a promise that travels with the rows.

A watermark says that no row after it is older than its time (but for rows that come later than
the declared bound). A source makes one from the rows of its splits; a task has the
lowest of its channels. What is idle or exhausted holds nothing back. Watermarks are not part of
snapshots: after a recovery they are made again from the rows that are read again.

Times are microseconds since 1970, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.runtime.messages import TimeMark

END_US = 253_402_300_799_999_999
"""The end of time, as Python knows it."""
LAST = TimeMark(END_US)
"""After it there is no row."""
EVERY_S = 0.2
"""A source makes no more than one watermark in this time, unless it ends."""


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """How a source makes watermarks: from which column, and how late its rows may be."""

    column: int
    delay_us: int
    idle_s: float | None = None


class SplitClock:
    """How far event time has come in one split."""

    __slots__ = ("newest_us", "promised_us", "quiet_since")

    def __init__(self) -> None:
        self.newest_us: int | None = None
        """The newest time of any row so far."""
        self.promised_us: int | None = None
        """What the reader itself has promised."""
        self.quiet_since: float | None = None
        """When it was first asked in vain; None if it gave rows the last time it was asked."""

    def asked(self, now: float, *, gave: bool) -> None:
        """A split that was not asked is not idle: it may be held back."""
        if gave:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = now

    def saw(self, batch: pa.RecordBatch, column: int) -> None:
        newest = pc.max(batch.column(column)).cast(pa.int64()).as_py()
        if newest is not None and (self.newest_us is None or newest > self.newest_us):
            self.newest_us = newest

    def time(self, delay_us: int) -> int | None:
        """The watermark of the split; None before its first row."""
        from_rows = None if self.newest_us is None else self.newest_us - delay_us
        known = [time for time in (from_rows, self.promised_us) if time is not None]
        return max(known, default=None)


class SourceClock:
    """The watermark of one source subtask."""

    def __init__(self, spec: WatermarkSpec) -> None:
        self._spec = spec
        self._told: TimeMark | None = None
        self._told_at: float | None = None

    def next(self, splits: Iterable[SplitClock], now: float) -> TimeMark | None:
        """What is to be said now; None if it is nothing new, or too soon.

        A source that is idle no more says so at once: others do not wait for it until then.
        """
        was_idle = self._told is not None and self._told.is_idle
        is_soon = self._told_at is not None and now < self._told_at + EVERY_S
        if is_soon and not was_idle:
            return None
        found = self._current(list(splits), now)
        if found is None or found == self._told or (is_soon and found.is_idle):
            return None
        self._told, self._told_at = found, now
        return found

    def _current(self, splits: list[SplitClock], now: float) -> TimeMark | None:
        before = None if self._told is None else self._told.time_us
        active = [split for split in splits if not self._is_idle(split, now)]
        if not active:
            return TimeMark(before, is_idle=True)
        times = [split.time(self._spec.delay_us) for split in active]
        if any(time is None for time in times):
            lowest = None
        else:
            lowest = min(time for time in times if time is not None)
        if lowest is None or (before is not None and lowest < before):
            lowest = before  # time never goes back
        return None if lowest is None and self._told is None else TimeMark(lowest)

    def _is_idle(self, split: SplitClock, now: float) -> bool:
        idle_s, since = self._spec.idle_s, split.quiet_since
        return idle_s is not None and since is not None and now >= since + idle_s

    def deadline(self, splits: Iterable[SplitClock], now: float) -> float | None:
        """When a split may turn idle, or a watermark that was too soon is due."""
        times = [] if self._told_at is None else [self._told_at + EVERY_S]
        if self._spec.idle_s is not None:
            quiet = (split.quiet_since for split in splits)
            times += [since + self._spec.idle_s for since in quiet if since is not None]
        return min((time for time in times if time > now), default=None)


class GateClock:
    """The watermark of a task: the lowest of its channels that are not idle or at their end."""

    def __init__(self, channels: int) -> None:
        self._times: list[int | None] = [None] * channels
        self._is_out = [False] * channels
        self.current = TimeMark(None)
        self._is_used = False

    def on_watermark(self, channel: int, watermark: TimeMark) -> TimeMark | None:
        """Take the watermark of a channel; what the task has to say on account of it, if any."""
        self._is_used = True
        if watermark.time_us is not None:
            self._times[channel] = watermark.time_us
        self._is_out[channel] = watermark.is_idle
        return self._changed()

    def on_end(self, channel: int) -> TimeMark | None:
        self._is_out[channel] = True
        return self._changed() if self._is_used else None

    def _changed(self) -> TimeMark | None:
        active = [n for n, is_out in enumerate(self._is_out) if not is_out]
        before = self.current.time_us
        known = [self._times[number] for number in active]
        if not active:
            # All have stopped: what all of them have promised holds.
            known = [time for time in self._times if time is not None]
        if not known or any(time is None for time in known):
            lowest = before
        else:
            lowest = min(time for time in known if time is not None)
            lowest = lowest if before is None else max(lowest, before)
        found = TimeMark(lowest, is_idle=not active)
        if found == self.current:
            return None
        self.current = found
        return found
