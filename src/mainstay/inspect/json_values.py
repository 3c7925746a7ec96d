"""Values in JSON: what rows hold as JSON has it, and keys as they are sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.inspect.columns import StateColumns
from mainstay.schema.ddl import format_type


def plain(value: Any) -> Any:
    """A value as JSON has it: times by ISO 8601, bytes in hexadecimal, the rest as a text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value)


def key_of(columns: StateColumns, key: Any) -> Any:
    """A key as it is sent: a value, a list of the values of its columns, or an object of them."""
    if not columns.is_keyed:
        return key
    names = columns.key_columns()
    if isinstance(key, dict):
        known = {name: number for number, name in enumerate(names)}
        return {
            name: _typed(columns, known[name], value) if name in known else value
            for name, value in key.items()
        }
    if not isinstance(key, list):
        return _typed(columns, 0, key) if len(names) == 1 else key
    if len(key) != len(names):
        raise StateTypeError(
            f"{columns.label}: the key {key!r} must give a value for each of {names}."
        )
    values = tuple(_typed(columns, number, value) for number, value in enumerate(key))
    return values if len(names) > 1 else values[0]


def keys_of(columns: StateColumns | None, keys: Sequence[Any]) -> list[Any]:
    """Keys as they are sent. Of a state that is unknown the answer says so, whatever the keys."""
    return [key if columns is None else key_of(columns, key) for key in keys]


def _typed(columns: StateColumns, number: int, value: Any) -> Any:
    """A value of JSON as the type of a column of the key."""
    field = columns.key_fields()[number]
    if value is None:
        return None
    try:
        return _cast(value, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise not_of_type(columns, field, value) from None


def not_of_type(columns: StateColumns, field: pa.Field, value: Any) -> StateTypeError:
    """What is said of a value that a column of the key cannot have."""
    return StateTypeError(
        f"{columns.label}: {value!r} is no {format_type(field.type)}, which the key's column "
        f"{field.name!r} is."
    )


def _cast(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, list | dict):
        return pa.scalar(value, type_).as_py()
    if isinstance(value, bool) != pa.types.is_boolean(type_):
        raise TypeError("truth is no number")
    if pa.types.is_string(type_) and not isinstance(value, str):
        raise TypeError("a number is no text")
    if isinstance(value, str) and pa.types.is_binary(type_):
        return bytes.fromhex(value)
    if isinstance(value, str) and pa.types.is_timestamp(type_):
        return _time(value, has_zone=type_.tz is not None)
    # A cast refuses what would be lost, such as the fraction of a number.
    return pa.scalar(value).cast(type_).as_py()


def _time(text: str, *, has_zone: bool) -> datetime:
    """A time by ISO 8601; one without a zone is in UTC where the column has one."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if has_zone and found.tzinfo is None:
        return found.replace(tzinfo=timezone.utc)
    if not has_zone and found.tzinfo is not None:
        raise ValueError("the column has no zone")
    return found
