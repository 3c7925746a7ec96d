"""What a function of the job's author is given beside the row: ``ctx``.

There is one for each operator of a subtask. The runtime sets the key before each row and the
watermark when event time moves on; handles of keyed state read the key from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from operator import attrgetter
from typing import Any, NoReturn

from mainstay.errors import MainstayError
from mainstay.spelling import did_you_mean
from mainstay.state.keyed import KeyContext

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _refuse_key(_: Any, key: Any) -> NoReturn:
    raise MainstayError(
        "ctx.key cannot be assigned: a row is already where the state of its own key is, and "
        "the state of another key may be in another subtask. Give the key that you want to "
        'key_by, as a function of the row: key_by(lambda row: row.name.lower(), "string").'
    )


class ProcessContext(KeyContext):
    """What a function of the job's author learns about the row it is called for."""

    __slots__ = ("parallelism", "subtask", "uid", "watermark_us")

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        super().__init__()
        self.uid = uid
        self.subtask = subtask
        self.parallelism = parallelism
        self.watermark_us: int | None = None

    # Apart from current_key, so that only an operator sets the key. The getter is written in C: a
    # function of Python would cost a tenth of what a row does.
    key = property(attrgetter("current_key"), _refuse_key, doc="The key of the current row.")

    @property
    def watermark(self) -> datetime | None:
        """How far event time has come: rows older than this are late. None while unknown."""
        if self.watermark_us is None:
            return None
        return _EPOCH + timedelta(microseconds=self.watermark_us)


def meant_of_ctx(error: BaseException) -> str:
    """What ``ctx`` has, for the end of an error that asked it for something else.

    Not in a ``__getattr__`` of the context, which would slow every read of ``ctx.key``.
    """
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ProcessContext):
        return ""
    return f".{did_you_mean(error.name, _READABLE)} ctx has {', '.join(_READABLE)}."


_READABLE = ("key", "parallelism", "subtask", "uid", "watermark")
