"""Python values in JSON and back, each as it was: keys that are sent with a query.

What JSON has no word for is an object with one name that begins with ``$``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from mainstay.errors import StateTypeError

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$bytes": bytes.fromhex,
    "$decimal": Decimal,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$microseconds": lambda us: timedelta(microseconds=us),
    "$tuple": lambda values: tuple(map(decoded, values)),
    "$dict": lambda pairs: {decoded(name): decoded(value) for name, value in pairs},
}


def encoded(value: Any) -> Any:
    """A value as JSON has it, so that ``decoded`` gives it back."""
    value = value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list):
        return list(map(encoded, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": bytes(value).hex()}
    if isinstance(value, tuple):
        return {"$tuple": list(map(encoded, value))}
    if isinstance(value, Mapping):
        return {"$dict": [[encoded(name), encoded(each)] for name, each in value.items()]}
    return _encoded_time(value)


def _encoded_time(value: Any) -> Any:
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, timedelta):
        return {"$microseconds": value // timedelta(microseconds=1)}
    raise StateTypeError(
        f"the key {value!r} cannot be sent: it is a {type(value).__name__}. Give a number, a text, "
        "bytes, a time, or a tuple or dictionary of those."
    )


def decoded(value: Any) -> Any:
    """The value that ``encoded`` was given."""
    if isinstance(value, list):
        return list(map(decoded, value))
    if not isinstance(value, dict):
        return value
    name, given = next(iter(value.items()), ("", None))
    if len(value) != 1 or name not in _DECODERS:
        raise StateTypeError(f"{value!r} is no exact key. It has one of {sorted(_DECODERS)}.")
    try:
        return _DECODERS[name](given)
    except (TypeError, ValueError, InvalidOperation, OverflowError):
        raise StateTypeError(f"{given!r} is no {name.removeprefix('$')}.") from None
