"""How the documentation says that values are spelled as text, in code of its own.

``from_json`` reads what ``json.loads`` gives for a type, ``to_json`` is what another program would
write; ``csv_fields`` tells the empty text from no text, which the standard library does not.
"""

from __future__ import annotations

import base64
import json
import math
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        assert value.keys() <= {field.name for field in data_type}
        return {field.name: from_json(value.get(field.name), field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return [
            (_key(key, data_type.key_type), from_json(item, data_type.item_type))
            for key, item in value.items()
        ]
    if pa.types.is_list(data_type):
        return [from_json(each, data_type.value_type) for each in value]
    return _scalar(value, data_type)


def _key(text: str, data_type: pa.DataType) -> Any:
    kinds = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating)
    if any(is_kind(data_type) for is_kind in kinds) and text not in NOT_FINITE:
        return _scalar(json.loads(text), data_type)
    return _scalar(text, data_type)


def _scalar(value: Any, data_type: pa.DataType) -> Any:
    if pa.types.is_floating(data_type):
        number = NOT_FINITE[value] if isinstance(value, str) else float(value)
        return float(np.float32(number)) if pa.types.is_float32(data_type) else number
    if pa.types.is_integer(data_type):
        assert type(value) is int
        return value
    if pa.types.is_boolean(data_type):
        assert type(value) is bool
        return value
    assert isinstance(value, str), value
    return from_text(value, data_type)


def from_text(text: str, data_type: pa.DataType) -> Any:
    """A value that is spelled as a text in JSON as well as in CSV."""
    if pa.types.is_binary(data_type):
        return base64.b64decode(text, validate=True)
    if pa.types.is_decimal(data_type):
        return Decimal(text)
    if pa.types.is_date(data_type):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(data_type):
        return _time(text, data_type)
    return text


def _time(text: str, data_type: pa.TimestampType) -> datetime:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{6})?Z?", text), text
    assert text.endswith("Z") == (data_type.tz is not None), text
    plain = datetime.fromisoformat(text.removesuffix("Z"))
    return plain.replace(tzinfo=timezone.utc) if data_type.tz else plain


def to_json(value: Any, data_type: pa.DataType) -> Any:
    """What ``json.dumps`` makes a document of that says this value."""
    if value is None or pa.types.is_string(data_type):
        return value
    if pa.types.is_struct(data_type):
        return {field.name: to_json(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        return {
            _as_key(to_json(key, data_type.key_type)): to_json(item, data_type.item_type)
            for key, item in value
        }
    if pa.types.is_list(data_type):
        return [to_json(each, data_type.value_type) for each in value]
    if pa.types.is_floating(data_type) and not math.isfinite(value):
        return next(name for name, number in NOT_FINITE.items() if repr(number) == repr(value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def _as_key(spelled: Any) -> str:
    return spelled if isinstance(spelled, str) else json.dumps(spelled)


# ---------------------------------------------------------------- CSV


def csv_fields(text: str) -> list[list[str | None]]:
    """The records of a CSV text; an empty field without quotes is None."""
    records: list[list[str | None]] = []
    record: list[str | None] = []
    field, is_quoted, in_quotes, at = "", False, False, 0
    while at < len(text):
        letter = text[at]
        at += 1
        if in_quotes:
            if letter != '"':
                field += letter
            elif text[at : at + 1] == '"':
                field, at = field + '"', at + 1
            else:
                in_quotes = False
        elif letter == '"':
            is_quoted = in_quotes = True
        elif letter in ",\n":
            record.append(field if field or is_quoted else None)
            field, is_quoted = "", False
            if letter == "\n":
                records.append(record)
                record = []
        else:
            field += letter
    assert [record, field] == [[], ""], "the last line has no end"
    return records


def from_csv(text: str | None, data_type: pa.DataType) -> Any:
    if text is None:
        return None
    if pa.types.is_floating(data_type):
        number = float(text)
        return float(np.float32(number)) if pa.types.is_float32(data_type) else number
    if pa.types.is_integer(data_type):
        return int(text)
    if pa.types.is_boolean(data_type):
        return {"true": True, "false": False}[text]
    return from_text(text, data_type)


def to_csv(value: Any, data_type: pa.DataType) -> str:
    """A field as another program would write it."""
    if value is None:
        return ""
    if pa.types.is_string(data_type):
        return '"' + value.replace('"', '""') + '"'
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
