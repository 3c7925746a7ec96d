"""The timers of an operator: what is due, in the order of time, whichever state it is from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import EVENT_TIMERS, PROCESSING_TIMERS
from mainstay.runtime.timers import KeyTimers
from mainstay.state.timer_handles import (
    EVENT_TIME,
    PROCESSING_TIME,
    TimerHandle,
    TimersHandle,
    in_domain,
    timers_among,
)

Handle: TypeAlias = TimerHandle | TimersHandle


class DueTimers:
    """The timers that go by one clock."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    def first_us(self) -> int | None:
        """When the next one is due."""
        found = self.first()
        return None if found is None else found[0]

    def first(self) -> tuple[int, Handle] | None:
        """The next one: its time, and where it is from. Of the same time, what stands first."""
        earliest: tuple[int, Handle] | None = None
        for handle in self._handles:
            at = handle.due_us()
            if at is not None and (earliest is None or at < earliest[0]):
                earliest = at, handle
        return earliest

    def next_of_others(self, handle: Handle) -> int | None:
        """When the next one is due that is from elsewhere."""
        times = [each.due_us() for each in self._handles if each is not handle]
        return min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        """No time comes any more: what is set from now on is ignored."""
        for handle in self._handles:
            handle.is_over = True


class OperatorTimers:
    """All timers of an operator. They are found in its restored state when it is made."""

    def __init__(self, context: OperatorContext, *, has_event_time: bool) -> None:
        assert context.keyed is not None
        self._handles = list(timers_among(context.keyed.handles.values()))
        for handle in self._handles:
            handle.restore(context.keyed.entries(handle.info.name))
        self.event = DueTimers(in_domain(self._handles, EVENT_TIME))
        self.processing = DueTimers(in_domain(self._handles, PROCESSING_TIME))
        self.fired = 0
        """How many have fired in this attempt."""
        sets = [context.keyed.handles.get(info.name) for info in (EVENT_TIMERS, PROCESSING_TIMERS)]
        if None not in sets:
            context.row_context.timers = KeyTimers(*sets, has_time=has_event_time)  # type: ignore[arg-type]

    @property
    def held(self) -> int:
        """How many there are."""
        return sum(handle.index.count for handle in self._handles)

    @property
    def ignored(self) -> int:
        """How many were set when no time came any more."""
        return sum(handle.ignored for handle in self._handles)
