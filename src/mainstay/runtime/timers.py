"""Timers that a function sets for the current key without declaring them: ``ctx.timers``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from mainstay.errors import MainstayError

if TYPE_CHECKING:
    from mainstay.state.timer_handles import TimersHandle


class Timers:
    """Sets and deletes timers of the current key; ``on_timer`` is called when one is due.

    A key has any number of them, one for each time: to set one again changes nothing. Times are
    datetimes, in UTC where they have no zone.
    """

    def event_time(self, at: datetime) -> None:
        """Have ``on_timer`` called when the watermark has come to a time."""
        raise MainstayError(_NO_HOOK)

    def processing_time(self, at: datetime) -> None:
        """Have ``on_timer`` called when the wall clock of the worker has come to a time."""
        raise MainstayError(_NO_HOOK)

    def delete_event_time(self, at: datetime) -> None:
        """Delete such a timer; nothing happens where there is none."""
        raise MainstayError(_NO_HOOK)

    def delete_processing_time(self, at: datetime) -> None:
        """Delete such a timer; nothing happens where there is none."""
        raise MainstayError(_NO_HOOK)


class KeyTimers(Timers):
    """Those of an operator whose function has ``on_timer``."""

    def __init__(self, event: TimersHandle, processing: TimersHandle, *, has_time: bool) -> None:
        self._event = event
        self._has_time = has_time
        self.processing_time = processing.set  # type: ignore[method-assign]
        self.delete_event_time = event.delete  # type: ignore[method-assign]
        self.delete_processing_time = processing.delete  # type: ignore[method-assign]

    def event_time(self, at: datetime) -> None:
        if not self._has_time:
            raise MainstayError(_NO_EVENT_TIME)
        self._event.set(at)


_NO_HOOK = (
    "ctx.timers was used in a function that no timer can call. A KeyedProcess, a CoKeyedProcess "
    "and a MultiProcess with keys and a method on_timer(self, at, ctx) may use it; a "
    "KeyedBatchProcess declares its timers "
    '(close = ms.Timer("event_time")) and has on_timers(self, keys, times, ctx).'
)
_NO_EVENT_TIME = (
    "ctx.timers.event_time() was called where event time never comes: no source before the "
    "operator has a watermark, or it is within a loop, where event time does not wait for rows "
    'that come back. Give a source one: env.source(..., watermark=ms.Watermark("at", '
    'delay="10s")), or set a timer with ctx.timers.processing_time().'
)
NO_TIMERS = Timers()
"""Where a function has none, it is told how to have some."""
