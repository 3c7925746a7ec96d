"""What a function of the job's author is given beside the row: ``ctx``.

There is one for each operator of a subtask. The runtime sets the key before each row and the
watermark when event time moves on; handles of keyed state read the key from it.
"""

from __future__ import annotations

import dis
import linecache
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from mainstay.errors import MainstayError
from mainstay.runtime.timers import NO_TIMERS, Timers
from mainstay.spelling import did_you_mean
from mainstay.state.keyed import NO_KEY, KeyContext

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ProcessContext(KeyContext):
    """What a function of the job's author learns about the row it is called for."""

    __slots__ = (
        "key",
        "parallelism",
        "subtask",
        "time_domain",
        "timer",
        "timers",
        "uid",
        "watermark_us",
    )

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        super().__init__()
        # Apart from current_key, by which state goes, so that assigning it redirects nothing. A
        # property would cost a twentieth of what a row does.
        self.key: Any = NO_KEY
        self.uid = uid
        self.subtask = subtask
        self.parallelism = parallelism
        self.watermark_us: int | None = None
        self.timers: Timers = NO_TIMERS
        """What sets timers for the current key."""
        self.timer: str | None = None
        """In ``on_timer``, the name of the timer that fires, where it was declared."""
        self.time_domain: str | None = None
        """In ``on_timer``, ``"event_time"`` or ``"processing_time"``; None elsewhere."""

    def leave(self) -> None:
        """There is no current row: what is called between slices must not find the last key."""
        self.key = self.current_key = NO_KEY
        self.timer = self.time_domain = None

    def check_key(self, method: Any) -> None:
        """Refuse a method that has assigned the key of the current row."""
        if self.key is not self.current_key:
            raise MainstayError(
                f"ctx.key cannot be assigned{_assignment_in(method)}: a row is already where the "
                "state of its own key is, and the state of another key may be in another subtask. "
                "Give the key that you want to key_by, as a function of the row: "
                'key_by(lambda row: row.name.lower(), "string").'
            )

    def now(self) -> datetime:
        """The wall clock that timers of processing time go by, in UTC.

        A test moves it on with ``advance_clock``; ``datetime.now()`` would not follow.
        """
        return _EPOCH + timedelta(microseconds=self.now_us())

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come: rows older than this are late. None while unknown."""
        if self.watermark_us is None:
            return None
        return _EPOCH + timedelta(microseconds=self.watermark_us)


def _assignment_in(method: Any) -> str:
    """Where a method assigns the key, as far as its own code says."""
    code = getattr(method, "__code__", None)
    if code is None:
        return ""
    starts, line = dict(dis.findlinestarts(code)), 0
    for each in dis.get_instructions(code):
        line = starts.get(each.offset) or line
        if each.opname == "STORE_ATTR" and each.argval == "key":
            file = code.co_filename
            return f" ({Path(file).name}:{line}: {linecache.getline(file, line).strip()})"
    return ""


def meant_of_ctx(error: BaseException) -> str:
    """What ``ctx`` has, for the end of an error that asked it for something else.

    Not in a ``__getattr__`` of the context, which would slow every read of ``ctx.key``.
    """
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ProcessContext):
        return ""
    return f".{did_you_mean(error.name, _READABLE)} ctx has {', '.join(_READABLE)}."


_READABLE = (
    "key",
    "now",
    "parallelism",
    "subtask",
    "time_domain",
    "timer",
    "timers",
    "uid",
    "watermark",
)
