"""Lists, maps and structs from the JSON that the server has for them.

What JSON has no type for is a text there: bytes as ``\\x61``, days and times as in ISO 8601, a
decimal, and what is no finite number. The sinks write it so, and ``to_json`` spells the elements of
an array so; digits of its numbers are kept.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d(?::?\d\d)?)?")


def from_json(text: str, data_type: pa.DataType) -> Any:
    """The value of a JSON text, with parts of the declared types; raises a ValueError otherwise."""
    return _value(json.loads(text, parse_float=Decimal, parse_constant=_refused), data_type)


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _value(found: Any, data_type: pa.DataType) -> Any:
    """What is of another form is left as it is, and refused where the array is made."""
    if found is None:
        return None
    if pa.types.is_struct(data_type) and isinstance(found, dict):
        types = {field.name: field.type for field in data_type}
        return {k: _value(v, types[k]) if k in types else v for k, v in found.items()}
    if pa.types.is_map(data_type):
        return _entries(found, data_type)
    if pa.types.is_list(data_type) and isinstance(found, list):
        return [_value(each, data_type.value_type) for each in found]
    if pa.types.is_floating(data_type):
        return _float(found)
    if pa.types.is_decimal(data_type):
        return _decimal(found)
    return _text(found, data_type) if isinstance(found, str) else _bare(found, data_type)


def _entries(found: Any, data_type: pa.MapType) -> Any:
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        return found
    key_type, item_type = data_type.key_type, data_type.item_type
    return [(_value(key, key_type), _value(item, item_type)) for key, item in pairs]


def _float(found: Any) -> Any:
    if isinstance(found, str):
        if found not in _NOT_FINITE:
            raise ValueError(f"{found!r} is no number")
        return _NOT_FINITE[found]
    if isinstance(found, bool) or not isinstance(found, int | Decimal):
        return found
    number = float(found)
    if math.isinf(number):
        raise ValueError(f"the number {found} is too large")
    return number


def _decimal(found: Any) -> Any:
    if isinstance(found, bool) or not isinstance(found, int | str | Decimal):
        return found
    try:
        number = Decimal(found)
    except InvalidOperation as error:
        raise ValueError(f"{found!r} is no number") from error
    if not number.is_finite():
        raise ValueError(f"{found!r} is no decimal")
    return number


def _bare(found: Any, data_type: pa.DataType) -> Any:
    if isinstance(found, Decimal):
        raise ValueError(f"the number {found} is of another type")
    return found


def _text(text: str, data_type: pa.DataType) -> Any:
    if pa.types.is_binary(data_type):
        if not text.startswith("\\x"):
            raise ValueError(f"{text!r} are no bytes, which begin with \\x")
        return bytes.fromhex(text[2:])
    if pa.types.is_date(data_type):
        return date.fromisoformat(text)
    return _time(text, data_type) if pa.types.is_timestamp(data_type) else text


def _time(text: str, data_type: pa.TimestampType) -> datetime:
    parts = _TIME.fullmatch(text)
    if parts is None or (parts[3] is not None and data_type.tz is None):
        raise ValueError(f"{text!r} is no time" + ("" if data_type.tz else " without a zone"))
    # Python before 3.11 reads neither Z nor other than three or six digits.
    whole, fraction, zone = parts[1], (parts[2] or "").ljust(6, "0"), parts[3] or ""
    zone = "+00:00" if zone == "Z" else f"{zone}:00" if len(zone) == 3 else zone
    at = datetime.fromisoformat(f"{whole}.{fraction}{zone}")
    if data_type.tz is None:
        return at
    return at.astimezone(timezone.utc) if at.tzinfo else at.replace(tzinfo=timezone.utc)
