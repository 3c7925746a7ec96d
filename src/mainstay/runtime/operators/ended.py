"""How far an operator has fired that lets all go at the end of its input.

A window that is open then is emitted, though the watermark has not come to its end. A job that is
started again goes on from there. How far that is must not depend on which subtask had which keys:
it is what the subtask that came furthest has fired, and holds for all, once all of them have ended.

Until then it holds for none of the others. An epoch may lie between the ends of two subtasks, and
the one that has not ended still has windows to emit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.own_states import ENDED


class EndingTimes(FiredTimes):
    """The times of the key-groups of one subtask, through the ends of its input."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self._ends = context.lists[ENDED.name]
        self._go_on()

    def _go_on(self) -> None:
        """Begin where all subtasks have ended, if they have; of this start none has."""
        ends = self._ends.get()
        if _are_all(ends, self._most):
            self.advance(max(each.time_us for each in ends))
        self._ends.update([])

    def ended(self) -> None:
        """All that was kept has fired; for ``end_of_input``."""
        if len(self._groups):
            self._ends.update([(self._groups.first, self._groups.last, self.highest)])


def _are_all(runs: Iterable[Any], count: int) -> bool:
    """Whether runs of key-groups are all that there are."""
    known = 0
    for run in sorted(runs, key=lambda each: each.first):
        if run.first > known:
            return False
        known = max(known, run.last + 1)
    return known >= count
