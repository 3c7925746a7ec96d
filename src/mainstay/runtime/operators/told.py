"""The last watermark of a source, in its snapshot.

A restored source tells it again before anything else: what was due by it may be half done, and a
quiet source may have nothing to make another one from. It is what all subtasks together had come
to, as a gate would see it. What one of them had told alone does not count, because splits that
nobody has begun may go to another one after a restore.
"""

from __future__ import annotations

from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import TOLD


class ToldTime:
    """What one subtask of a source tells, as part of its state."""

    def __init__(self, context: OperatorContext) -> None:
        self._state = context.lists[TOLD.name]
        told = [TimeMark(each.time_us, each.is_idle) for each in self._state.get()]
        active = [mark.time_us for mark in told if not mark.is_idle]
        self.restored_us: int | None = None
        if not active:
            times = [mark.time_us for mark in told if mark.time_us is not None]
            self.restored_us = max(times, default=None)
        elif None not in active:
            self.restored_us = min(time for time in active if time is not None)

    def store(self, told: TimeMark) -> None:
        """Put it into the source's state."""
        self._state.update([(told.time_us, told.is_idle)])
