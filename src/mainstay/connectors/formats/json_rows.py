"""Rows as JSON objects, spelled the way Spark spells them.

A null field is left out. Dates and times are ISO texts, times in UTC with a ``Z``; bytes are
base64; a decimal is a text, because a number would lose digits with most readers; what is no
finite number is "NaN", "Infinity" or "-Infinity". A map is an object with texts as keys.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

Convert = Callable[[Any], Any]


def json_rows(batch: pa.RecordBatch | pa.Table) -> Iterator[str]:
    """Each row as the text of one JSON object, on one line."""
    names = batch.schema.names
    columns = [
        _values(batch.column(number), type) for number, type in enumerate(batch.schema.types)
    ]
    for row in zip(*columns, strict=True):
        yield _encode({n: v for n, v in zip(names, row, strict=True) if v is not None})


def _values(column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> list[Any]:
    convert = _converter(type)
    values: list[Any] = column.to_pylist()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def _converter(type: pa.DataType) -> Convert | None:
    """What turns a value that pyarrow gives into one that JSON has; None where it is one."""
    if pa.types.is_floating(type):
        return _float
    if pa.types.is_timestamp(type):
        return _zoned if type.tz else datetime.isoformat
    if pa.types.is_date(type):
        return lambda day: day.isoformat()
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return lambda data: base64.b64encode(data).decode()
    if pa.types.is_decimal(type):
        return str
    if pa.types.is_struct(type):
        return _struct(type)
    if pa.types.is_map(type):
        return _map(type)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return _list(type)
    return None


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _zoned(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat() + "Z"


def _struct(type: pa.StructType) -> Convert:
    fields = [(type.field(n).name, _converter(type.field(n).type)) for n in range(type.num_fields)]

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        present = ((name, how, value[name]) for name, how in fields if value[name] is not None)
        return {name: how(part) if how else part for name, how, part in present}

    return convert


def _list(type: pa.ListType) -> Convert | None:
    how = _converter(type.value_type)
    if how is None:
        return None
    return lambda values: [None if value is None else how(value) for value in values]


def _map(type: pa.MapType) -> Convert:
    key_of, value_of = _converter(type.key_type), _converter(type.item_type)

    def convert(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        return {
            _key(key_of(key) if key_of else key): (
                value_of(value) if value_of and value is not None else value
            )
            for key, value in pairs
        }

    return convert


def _key(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value)
