"""What a function of the job's author is given beside the row: ``ctx``.

There is one for each operator of a subtask. The runtime sets the key before each row and the
watermark when event time moves on; handles of keyed state read the key from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from mainstay.errors import MainstayError
from mainstay.spelling import did_you_mean
from mainstay.state.keyed import NO_KEY, KeyContext, no_key_to_read

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ProcessContext(KeyContext):
    """What a function of the job's author learns about the row it is called for."""

    __slots__ = ("parallelism", "subtask", "uid", "watermark_us")

    def __init__(self, uid: str, subtask: int, parallelism: int) -> None:
        super().__init__()
        self.uid = uid
        self.subtask = subtask
        self.parallelism = parallelism
        self.watermark_us: int | None = None

    @property
    def key(self) -> Any:
        """The key of the current row. Where there is none, reading it is an error."""
        # Apart from current_key, so that only an operator sets the key, and at no cost.
        key = self.current_key
        if key is NO_KEY:
            no_key_to_read()
        return key

    @key.setter
    def key(self, value: Any) -> None:
        raise MainstayError(
            "ctx.key cannot be assigned: a row is already where the state of its own key is, and "
            "the state of another key may be in another subtask. Give the key that you want to "
            'key_by, as a function of the row: key_by(lambda row: row.name.lower(), "string").'
        )

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
