"""Timers that a function declares, as it declares states.

::

    class Session(KeyedProcess):
        close = Timer("event_time")

        def process(self, row, ctx):
            self.close.set(row.at + timedelta(minutes=30))

        def on_timer(self, at, ctx):
            yield ctx.key, at

A timer is a state: one time for each key, in every snapshot, and moved by a rescale. ``set``
replaces the time that there was, so that a key has one timer of a name at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import seconds
from mainstay.spelling import did_you_mean
from mainstay.state.declaration import StateDeclaration
from mainstay.state.info import StateInfo
from mainstay.state.kinds import TIMER
from mainstay.state.timer_handles import DOMAINS, TimerSpec


@made_with_own_frames
class Timer(StateDeclaration):
    """One timer per key: ``on_timer`` is called when its time has come.

    ``time`` says which clock it goes by: ``"event_time"`` fires when the watermark has reached the
    time, ``"processing_time"`` when the wall clock of the worker has. With ``every`` times are
    rounded up to whole multiples of it, so that many keys share a time; never early.
    """

    kind = TIMER
    changed_by = "set(at)"

    def __init__(
        self, time: str, *, every: str | float | None = None, queryable: bool = True
    ) -> None:
        super().__init__("timestamp", queryable=queryable)
        if time not in DOMAINS:
            raise GraphError(
                f'Timer({time!r}): a timer goes by "event_time" or by "processing_time".'
                f"{did_you_mean(time, DOMAINS)}"
            )
        self.time = time
        self.every = every
        self._spec = TimerSpec(time, _every_us(every))

    def __repr__(self) -> str:
        every = "" if self.every is None else f", every={self.every!r}"
        return f"Timer({self.time!r}{every})"

    def info(self) -> StateInfo:
        return replace(super().info(), timer=self._spec)

    def set(self, at: datetime) -> None:
        """Have the timer of the current key fire at a time; one that was set before does not.

        A datetime without a zone is one in UTC.
        """
        self._unbound()

    def get(self) -> datetime | None:
        """The time that the timer of the current key is set to, in UTC; None where it is not."""
        self._unbound()

    def clear(self) -> None:
        """Have no timer for the current key."""
        self._unbound()

    def set_many(self, keys: Iterable[Any], times: Iterable[Any]) -> None:
        """Set the timers of many keys of the current batch; None clears. All or none.

        Both may be lists, numpy arrays or Arrow arrays.
        """
        self._unbound()

    def get_many(self, keys: Iterable[Any], default: Any = None) -> list[Any]:
        """The times of many keys of the current batch, for functions over batches."""
        self._unbound()

    def clear_many(self, keys: Iterable[Any]) -> None:
        """Have no timers for many keys of the current batch."""
        self._unbound()


def _every_us(every: str | float | None) -> int:
    if every is None:
        return 1
    found = round(seconds(every, "every", positive=True) * 1_000_000)
    if found < 1:
        raise GraphError(f"every={every!r} must be at least a microsecond.")
    return found
