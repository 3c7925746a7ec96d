"""Plain values as a kernel has them: a form, and a number, a text or bytes."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from types import CodeType, FunctionType
from typing import Any

from mainstay.state.fixed_width import Form

_EPOCH = datetime(1970, 1, 1)
_ZONED_EPOCH = _EPOCH.replace(tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def number_of(value: Any) -> tuple[Form, Any] | None:
    """The form of a value and what stands for it; None where a kernel can hold none of its kind."""
    kind = type(value)
    if kind is bool:
        return "bool", value
    if kind is int:
        return ("int", value) if -(1 << 63) <= value < 1 << 63 else None
    if kind is float:
        return "float", value
    if kind is str:
        return ("str", value) if _is_text(value) else None
    if kind is bytes:
        return "bytes", value
    if kind is timedelta:
        return "delta", value // _MICROSECOND
    if kind is date:
        return "date", (value - _EPOCH.date()).days
    if kind is datetime:
        return _moment(value)
    return None


def _is_text(value: str) -> bool:
    """Whether a column can hold it: half a surrogate pair has no bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _moment(value: datetime) -> tuple[Form, Any] | None:
    if value.tzinfo is None:
        return "time", (value - _EPOCH) // _MICROSECOND
    if value.tzinfo is not timezone.utc:
        # It has an hour and a day of its own, which the number does not say.
        return None
    return "zoned", (value - _ZONED_EPOCH) // _MICROSECOND


def marks_of(found: Any) -> Any:
    """What tells a collection of plain values, a function, or None from what may be there later.

    Not the collection itself, which may be changed in place; nor its equal, as 1 is True's.
    """
    kind = type(found)
    if kind is FunctionType:
        code = found.__code__
        consts = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
        return kind, (code.co_code, code.co_names, consts)
    if kind in (list, tuple):
        return kind, [(type(each), repr(each)) for each in found]
    if kind in (set, frozenset):
        return kind, {(type(each), each) for each in found}
    return kind, found is None
