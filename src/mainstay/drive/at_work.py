"""Which operator is at work on this thread: for what it prints and logs, and for nothing else.

The calls that led here are looked at, so that operators which print nothing pay nothing.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

_OPERATORS = "mainstay.runtime.operators."
_MOST_CALLS = 200


class AtWork(NamedTuple):
    """An operator and the number of its subtask."""

    operator: str
    subtask: int


def at_work() -> AtWork | None:
    """The innermost operator among the callers; None where none is."""
    frame = sys._getframe(1)
    for _ in range(_MOST_CALLS):
        if frame.f_globals.get("__name__", "").startswith(_OPERATORS):
            context = getattr(frame.f_locals.get("self"), "context", None)
            uid, subtask = getattr(context, "uid", None), getattr(context, "subtask", None)
            if isinstance(uid, str) and isinstance(subtask, int):
                return AtWork(uid, subtask)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None
