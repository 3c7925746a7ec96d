"""Functions that are called once for each key of a slice, with all its rows.

The time stands still while a slice lasts: the wall clock, also for states with a time to live, and
the watermark. Timers that are due fire in passes: after a slice, when a watermark comes, and by the
wall clock while nothing else happens. So a slice is to such a function what a micro-batch is to a
function that was written for those.

What the function itself is, an adapter knows (``group_function``); the operator knows time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.fired import NEVER, FiredTimes
from mainstay.runtime.operators.gathered_rows import GatheredRows
from mainstay.runtime.operators.group_function import GroupContext, GroupFunction, GroupTimes
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.runtime.operators.timed import OVERDUE_S, SLICE_S, SLICE_TIMERS
from mainstay.runtime.operators.timer_passes import TimerPasses
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import END_US
from mainstay.state.backends.contract import Work
from mainstay.state.timer_handles import EVENT_TIME, timers_among

_log = logging.getLogger("mainstay.timers")
_MS = 1_000


class KeyedGroups(Operator):
    """Calls a group function for the keys of each slice, and for timers."""

    may_be_cut = True
    _rings = False
    """The wall clock rings between ``open`` and the end of input."""
    timers: TimerPasses | None = None
    initial_reader: KeyReader | None = None

    def __init__(
        self, function: GroupFunction, key: KeySpec, schema: pa.Schema, times: GroupTimes
    ) -> None:
        self._function = function
        self.slice_s = function.slice_s
        self._key = key
        self._reader = KeyReader(key, schema)
        self._times = times
        self._gathered = None if times.hold_s is None else GatheredRows(times.hold_s)
        self._pending: TimeMark | None = None
        """A watermark that waits for rows that are held."""
        self._passed_on = TimeMark(None)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._keyed, self._ctx = context.keyed, context.row_context
        self._fired: FiredTimes | None = None
        self._retry_at: float | None = None
        handles = list(timers_among(context.keyed.handles.values()))
        if handles:
            (handle,) = handles
            handle.restore(context.keyed.entries(handle.info.name))
            self.timers = TimerPasses(handle, self._ctx)
        if self._is_by_event_time:
            self._fired = FiredTimes(context)
            self._tell_time(None)
        has_time = self._times.comes
        self._group = GroupContext(context, self._key, self._reader, self.timers, has_time=has_time)
        self._group.initial = self.initial_reader
        try:
            self._function.open(self._group)
        except BaseException as error:
            raise user_error(context, error, "init") from error
        self._rings = True

    @property
    def _is_by_event_time(self) -> bool:
        return self._times.domain == EVENT_TIME

    @property
    def timer_counts(self) -> tuple[int, int] | None:
        return None if self.timers is None else (self.timers.held, self.timers.fired)

    def close(self) -> None:
        try:
            self._function.close()
        except BaseException as error:
            raise user_error(self.context, error, "close") from error

    # ------------------------------------------------------------ rows

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        return self._keyed.read_ahead(self._reader.keys(batch))

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        gathered = self._gathered
        if gathered is None:
            self._take(batch)
            return
        gathered.add(batch, self.context.clock.monotonic())
        if gathered.is_full:
            self._hand_over_all()

    def _take(self, batch: pa.RecordBatch) -> None:
        batch = self._in_time(batch)
        if not batch.num_rows:
            return
        if self.timers is not None:
            self.timers.release()
        self.call(self._function.rows, batch)

    def call(self, method: Any, argument: Any, hook: str = "") -> None:
        """Call a method of the function while time stands still, and emit what it gives."""
        self._hold_time()
        try:
            emitted = method(argument)
        except BaseException as error:
            raise user_error(self.context, error, hook) from error
        finally:
            self._ctx.held_us = None
            self._ctx.leave()
        for batch in emitted:
            self.out(batch)

    def _hold_time(self) -> None:
        group, ctx = self._group, self._ctx
        group.now_ms = ctx.now_us() // _MS
        ctx.held_us = group.now_ms * _MS
        group.watermark_ms = self._watermark_us // _MS

    @property
    def _watermark_us(self) -> int:
        """Before the first one event time stands at the beginning of 1970."""
        known = self._ctx.watermark_us
        return 0 if known is None else known

    def _in_time(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are newer than the watermark, or have no time."""
        if self._fired is None or self._times.column is None:
            return batch
        if self._fired.highest == NEVER:
            return batch
        times = batch.column(self._times.column)
        ticks = times.cast(pa.int64()).fill_null(END_US).to_numpy(zero_copy_only=False)
        is_late = ticks <= self._fired.of(self._reader.column(batch))
        late = int(np.count_nonzero(is_late))
        if not late:
            return batch
        self.late_rows += late
        return batch.filter(pa.array(~is_late))

    # ------------------------------------------------------------ time

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        is_last = watermark.time_us is not None and watermark.time_us >= END_US
        if self._has_held and not is_last:
            self._pending = watermark
            return
        yield from self._hand_over()
        yield from self._advance(watermark)

    @property
    def _has_held(self) -> bool:
        return self._gathered is not None and not self._gathered.is_empty

    def _hand_over(self) -> Iterator[None]:
        """Give the function the rows that are held, then let time pass that has waited for them."""
        if self._gathered is None or self._gathered.is_empty:
            return
        self._take(self._gathered.take())
        pending, self._pending = self._pending, None
        if pending is not None:
            yield from self._advance(pending)
        yield from self.on_clock()

    def _hand_over_all(self) -> None:
        for _ in self._hand_over():
            pass

    def forwarded(self, watermark: TimeMark) -> TimeMark:
        return self._passed_on if self._pending is not None else watermark

    def _advance(self, watermark: TimeMark) -> Iterator[None]:
        """Event time has come to a watermark, and nothing that is held is before it."""
        yield from super().on_watermark(watermark)
        self._passed_on = watermark
        if self._fired is None:
            return
        self._tell_time(watermark.time_us)
        if watermark.time_us is None:
            return
        is_last = watermark.time_us >= END_US
        if self.timers is not None:
            yield from self._fire_by(watermark.time_us, is_last=is_last)
        if not is_last:
            # Not up to the end of time: a job that has ended may be started again with more input.
            self._fired.advance(watermark.time_us)

    def _fire_by(self, time_us: int, *, is_last: bool) -> Iterator[None]:
        assert self.timers is not None
        handle = self.timers.handle
        before = handle.ignored
        if is_last:
            self.timers.release()
            handle.is_over = True
        yield from self._pass(self._passed(time_us))
        if handle.ignored > before:
            _log.warning(
                "operator %r: %d event-time timers were set when event time had come to its end, "
                "and are ignored",
                self.context.uid,
                handle.ignored - before,
            )

    def _tell_time(self, time_us: int | None) -> None:
        """A restored operator knows how far event time had come before it hears of it again."""
        assert self._fired is not None
        known = [time for time in (time_us, self._fired.lowest) if time not in (None, NEVER)]
        self._ctx.watermark_us = max(known, default=None)

    def is_due(self) -> bool:
        if not self._rings:
            return False
        if self._gathered is not None and not self._gathered.is_empty:
            until = self._gathered.until()
            return until is not None and self.context.clock.monotonic() >= until
        if self.timers is None:
            return False
        if self._retry_at is not None and self.context.clock.monotonic() >= self._retry_at:
            return True
        first = self.timers.first_us()
        return first is not None and first <= self._until_us()

    def _until_us(self) -> int:
        """Up to which time timers are due now."""
        now_us = self._watermark_us if self._is_by_event_time else self._ctx.now_us()
        return self._passed(now_us)

    def _passed(self, time_us: int) -> int:
        return (time_us // _MS - 1) * _MS if self._times.is_strict else time_us

    def on_clock(self) -> Iterator[None]:
        yield from self._hand_over()
        if self.timers is not None:
            yield from self._pass(self._until_us())

    def deadline(self) -> float | None:
        if not self._rings:
            return None
        if self._gathered is not None and not self._gathered.is_empty:
            return self._gathered.until()
        if self.timers is None:
            return None
        now = self.context.clock.monotonic()
        first = self.timers.first_us()
        times = [] if self._retry_at is None else [self._retry_at]
        if first is not None and self._is_by_event_time and first <= self._until_us():
            times.append(now)
        elif first is not None and not self._is_by_event_time:
            wait_s = (first - self._until_us()) / 1_000_000
            times.append(now + (wait_s if wait_s > 0 else OVERDUE_S))
        return min(times, default=None)

    def before_end(self) -> Iterator[None]:
        """What came due while the last watermark fired others is fired too."""
        return iter(()) if self._is_by_event_time else self.on_clock()

    def end_of_input(self) -> None:
        """The wall clock rings no more: what waits for it stays in the state."""
        self._rings = False

    def before_marker(self, epoch: int) -> None:
        self._hand_over_all()
        if self._fired is not None:
            self._fired.store()

    # ------------------------------------------------------------ firing

    def _pass(self, until_us: int) -> Iterator[None]:
        """Fire all that is due now, a slice at a time; what is set meanwhile waits."""
        assert self.timers is not None
        self.timers.begin(until_us)
        self._retry_at = None
        while self.timers.has_due:
            self.call(self._function.expired, self._due(), "handleExpiredTimer")
            yield
        self.timers.end()
        if self.timers.has_waiting and not self._is_by_event_time:
            self._retry_at = self.context.clock.monotonic() + OVERDUE_S

    def _due(self) -> Iterator[tuple[int, Any]]:
        """The timers of a slice."""
        assert self.timers is not None
        clock = self.context.clock.monotonic
        ends = clock() + SLICE_S
        for timer in self.timers.due(SLICE_TIMERS):
            self._group.enter(timer[1])
            yield timer
            if clock() >= ends:
                return
