"""Timers that fire in passes: what was there when a pass began, and nothing that is set meanwhile.

A timer that is set for a time that has come, by a function that a timer called, waits for the next
pass. So a function that always sets itself anew for the past ends, and is called again and again,
but not at once. What waits is in the state, as all timers are, but not in the index of times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainstay.state.keyed import KeyContext
from mainstay.state.timer_handles import TimerHandle, TimersHandle, moment

Timer = tuple[int, Any]
"""A time in microseconds since 1970, and the key that waits for it."""


class TimerPasses:
    """The timers of one operator, all of one state, for the key that is current."""

    def __init__(self, handle: TimerHandle | TimersHandle, context: KeyContext) -> None:
        self.handle = handle
        self.fired = 0
        """How many have fired in this attempt."""
        self._index = handle.index
        self._context = context
        self._until_us: int | None = None
        self._firing: Timer | None = None
        self._waiting: dict[Timer, None] = {}
        self._by_key: dict[Any, set[int]] | None = None

    @property
    def held(self) -> int:
        """How many there are."""
        return self._index.count + len(self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Whether some are due that wait for the next pass."""
        return bool(self._waiting)

    def first_us(self) -> int | None:
        """When the next one is due that need not wait for the next pass."""
        return self._index.first()

    # ------------------------------------------------------------ of the current key

    def set(self, at_us: int) -> None:
        """Set a timer; where the state has one time for each key, in the place of another."""
        timer = at_us, self._context.current_key
        if timer == self._firing or timer in self._waiting:
            return
        handle = self.handle
        handle.set(moment(at_us))
        if handle.is_over:
            return
        if self._by_key is not None:
            self._by_key.setdefault(timer[1], set()).add(at_us)
        if self._until_us is not None and at_us <= self._until_us:
            self._index.remove(*timer)
            self._waiting[timer] = None

    def delete(self, at_us: int) -> None:
        """Delete one of several timers of the key; nothing happens where there is none."""
        assert isinstance(self.handle, TimersHandle)
        timer = at_us, self._context.current_key
        if timer in self._waiting:
            del self._waiting[timer]
            self._index.add(*timer)
        self.handle.delete(moment(at_us))
        self._forget(timer)

    def clear(self) -> None:
        """Delete the one timer of the key."""
        assert isinstance(self.handle, TimerHandle)
        self.handle.clear()

    def times(self) -> list[int]:
        """All times of the key, in order; the one that fires just now, too."""
        if self._by_key is None:
            # Nobody may ever ask, so it is not kept from the beginning. The index need not have
            # all of them in memory; the state has, also those that wait.
            self._by_key = {}
            for at_us, key in self.handle.all():
                self._by_key.setdefault(key, set()).add(at_us)
        found = set(self._by_key.get(self._context.current_key, ()))
        if self._firing is not None:
            found.add(self._firing[0])
        return sorted(found)

    def _forget(self, timer: Timer) -> None:
        at_us, key = timer
        times = None if self._by_key is None else self._by_key.get(key)
        if times is not None and self._by_key is not None:
            times.discard(at_us)
            if not times:
                del self._by_key[key]

    # ------------------------------------------------------------ passes

    def release(self) -> None:
        """What has waited for the next pass is due in it."""
        for timer in self._waiting:
            self._index.add(*timer)
        self._waiting.clear()

    def begin(self, until_us: int) -> None:
        """A pass begins: what is set from now on for a time up to this one waits."""
        self.release()
        self._until_us = until_us

    def end(self) -> None:
        self._until_us = None

    def due(self, most: int) -> Iterator[Timer]:
        """Timers of the pass in the order of their times. Each leaves the state as it is given,
        and counts as there until the next is asked for."""
        assert self._until_us is not None
        for _ in range(most):
            at_us = self._index.first()
            if at_us is None or at_us > self._until_us:
                return
            key = self.handle.take()
            self._firing = at_us, key
            self._forget(self._firing)
            self.fired += 1
            try:
                yield at_us, key
            finally:
                self._firing = None

    @property
    def has_due(self) -> bool:
        """Whether anything of the pass is left."""
        first = self._index.first()
        return first is not None and self._until_us is not None and first <= self._until_us
