"""Declared timers of a compiled function, lent to the function itself for some keys.

A timer is stored beside the order of all times, by which it fires. What is lent is a table of a few
keys with an order of its own: the function reads and sets timers there as it always does, and what
has changed is put back by the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from mainstay.runtime.compiled.scratch import Scratch
from mainstay.state.info import StateInfo
from mainstay.state.timer_handles import TimerHandle, microseconds, moment
from mainstay.state.timer_index import TimerIndex


class TimerColumn:
    """A stored timer as the other states of a compiled function are: by the column."""

    arrays: ClassVar[None] = None
    """It has no arrays to give."""

    __slots__ = ("column", "info", "put_many")

    def __init__(self, handle: TimerHandle) -> None:
        self.info = handle.info
        self.column = handle.column
        self.put_many = handle.keep_column


class TimerScratch(Scratch):
    """The times of some keys, and their order."""

    def __init__(self, info: StateInfo) -> None:
        super().__init__(info)
        self.timer_order = TimerIndex()

    def begin(self, entries: Iterable[tuple[Any, Any]]) -> None:
        super().begin(entries)
        self.timer_order.fill((microseconds(at), key) for key, at in self.live.items())

    def take_in(self, key: Any, at_us: int) -> None:
        """Hold a timer that was taken out of the stored ones: where it is left it goes back."""
        self.put(key, moment(at_us))
        self.timer_order.add(at_us, key)


@dataclass(frozen=True, slots=True)
class LentTimer:
    """A timer as it is stored, and as the function has it."""

    stored: TimerHandle
    lent: TimerHandle
    scratch: TimerScratch


@contextmanager
def lending(timers: Sequence[LentTimer]) -> Iterator[None]:
    """Whether time is over is so for what is lent, too; and what is ignored there is counted."""
    for timer in timers:
        timer.lent.is_over = timer.stored.is_over
    yield
    for timer in timers:
        timer.stored.ignored += timer.lent.ignored
        timer.lent.ignored = 0


def scratch_of(info: StateInfo) -> Scratch:
    """A table for what the function sees of a state."""
    return Scratch(info) if info.timer is None else TimerScratch(info)


def by_column(handle: Any) -> Any:
    """A state that is read and written by the column."""
    return TimerColumn(handle) if isinstance(handle, TimerHandle) else handle
