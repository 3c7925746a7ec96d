"""Keyed operators whose functions have timers.

A timer leaves the state before its function is called, and what that emits goes out with the slice
that it fired in. So a cut between two slices has all of it, or nothing: what had not fired is due
again when the same watermark comes again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.connected import ConnectedRows
from mainstay.runtime.operators.due import DueTimers, OperatorTimers
from mainstay.runtime.operators.fired import NEVER, FiredTimes
from mainstay.runtime.operators.keyed import KeyedBatches, KeyedFunction, KeyedRows
from mainstay.runtime.operators.rows import collect
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.watermarks import END_US
from mainstay.state.timer_handles import EVENT_TIME, PROCESSING_TIME, TimerHandle, moment
from mainstay.state.values import Keys

SLICE_S = 0.003
SLICE_TIMERS = 1024
"""Timers of a slice at most, however quick they are."""
OVERDUE_S = 0.01
"""When to look again at a timer that is due and could not fire yet."""
_TIMES = pa.timestamp("us", tz="UTC")
_log = logging.getLogger("mainstay.timers")


class Timed(Operator):
    """What operators with timers share. ``fire`` is the slice of one of them."""

    may_be_cut = True
    has_event_time: bool
    _ctx: ProcessContext
    _is_open = _rings = False
    """The wall clock rings between ``open`` and the end of input."""

    def open(self, context: OperatorContext) -> None:
        self.timers = OperatorTimers(context, has_event_time=self.has_event_time)
        self._fired = FiredTimes(context)
        self._ignored = 0
        self._is_open = self._rings = True
        super().open(context)
        self._tell_time(None)

    def _tell_time(self, time_us: int | None) -> None:
        """A restored operator knows how far event time had come before it hears of it again."""
        known = [time for time in (time_us, self._fired.lowest) if time not in (None, NEVER)]
        self.context.row_context.watermark_us = max(known, default=None)

    @property
    def timer_counts(self) -> tuple[int, int] | None:
        return (self.timers.held, self.timers.fired) if self._is_open else None

    # ------------------------------------------------------------ time

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        yield from super().on_watermark(watermark)
        self._tell_time(watermark.time_us)
        if watermark.time_us is None:
            return
        is_last = watermark.time_us >= END_US
        if is_last:
            self.timers.event.close()
        yield from self._fire_all(self.timers.event, EVENT_TIME, watermark.time_us)
        if is_last:
            self._tell_ignored()
        else:
            # Not up to the end of time: a job that has ended may be started again with more input.
            self._fired.advance(watermark.time_us)

    def is_due(self) -> bool:
        first = self.timers.processing.first_us()
        return first is not None and first <= self._ctx.now_us()

    def on_clock(self) -> Iterator[None]:
        return self._fire_all(self.timers.processing, PROCESSING_TIME, self._ctx.now_us())

    def deadline(self) -> float | None:
        first = self.timers.processing.first_us() if self._rings else None
        if first is None:
            return None
        wait_s = (first - self._ctx.now_us()) / 1_000_000
        return self.context.clock.monotonic() + (wait_s if wait_s > 0 else OVERDUE_S)

    def before_end(self) -> Iterator[None]:
        """What came due while the last watermark fired others is fired too."""
        return self.on_clock()

    def end_of_input(self) -> None:
        """The wall clock rings no more: what waits for it stays in the state."""
        super().end_of_input()
        self._rings = False

    def before_marker(self, epoch: Epoch) -> None:
        super().before_marker(epoch)
        self._fired.store()

    def _tell_ignored(self) -> None:
        ignored = self.timers.ignored - self._ignored
        self._ignored = self.timers.ignored
        if ignored:
            _log.warning(
                "operator %r: %d event-time timers were set when event time had come to its end, "
                "and are ignored",
                self.context.uid,
                ignored,
            )

    # ------------------------------------------------------------ firing

    def _fire_all(self, due: DueTimers, domain: str, until_us: int) -> Iterator[None]:
        """Fire all that is due, those too that are set meanwhile, a slice at a time."""
        while (first := due.first_us()) is not None and first <= until_us:
            self._ctx.time_domain = domain
            try:
                self.fire(due, until_us)
            finally:
                self._ctx.leave()
            yield

    def fire(self, due: DueTimers, until_us: int) -> None:
        """Fire a slice of what is due, and emit what it gives."""
        raise NotImplementedError


class TimedFunction(Timed, KeyedFunction):
    """What keyed operators share that call a function for each row or batch."""


class _TimedRows(TimedFunction):
    """One timer after the other, through ``on_timer``."""

    def fire(self, due: DueTimers, until_us: int) -> None:
        method = self._function.on_timer
        out: list[Any] = []
        try:
            with self._aside:
                for key, at in self._polled(due, until_us):
                    self._ctx.key = self._ctx.current_key = key
                    collect(method(moment(at), self._ctx), out, self._taking)
            self._ctx.check_key(method)
        except BaseException as error:
            raise user_error(self.context, error, "on_timer") from error
        self.emit_rows(out, method)

    def _polled(self, due: DueTimers, until_us: int) -> Iterator[tuple[Any, int]]:
        """Timers of a slice, each taken out when it is asked for: one may change the next."""
        clock, ctx = self.context.clock.monotonic, self._ctx
        ends = clock() + SLICE_S
        for _ in range(SLICE_TIMERS):
            found = due.first()
            if found is None or found[0] > until_us:
                return
            at, handle = found
            ctx.timer = handle.timer
            self.timers.fired += 1
            yield handle.take(), at
            if clock() >= ends:
                return


class TimedKeyedRows(_TimedRows, KeyedRows):
    """A ``KeyedProcess`` function with ``on_timer``."""

    def __init__(self, has_event_time: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.has_event_time = has_event_time


class TimedConnectedRows(_TimedRows, ConnectedRows):
    """A function of several keyed inputs with ``on_timer``."""

    def __init__(self, has_event_time: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.has_event_time = has_event_time


class TimedKeyedBatches(TimedFunction, KeyedBatches):
    """A ``KeyedBatchProcess`` function with ``on_timers``."""

    def __init__(self, has_event_time: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.has_event_time = has_event_time

    def fire(self, due: DueTimers, until_us: int) -> None:
        found = due.first()
        assert found is not None
        _, handle = found
        assert isinstance(handle, TimerHandle)
        # Up to where another timer is next, so that times are in order between them, too.
        other = due.next_of_others(handle)
        until_us = until_us if other is None else min(until_us, other)
        keys, times = handle.take_many(until_us, SLICE_TIMERS)
        self.timers.fired += len(keys)
        self._ctx.timer = handle.timer
        method = self._function.on_timers
        self.call(method, Keys(keys), pa.array(times, _TIMES), hook="on_timers")
