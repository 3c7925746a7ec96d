"""The columns of a state's table that people read.

A row has its value twice: as the cell that the job reads back, exactly, and as columns for SQL.
Those need not hold everything: a text has no zero byte there, and what is nested is JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.connectors.postgres.columns import created_as
from mainstay.schema.transpose import shown

OWN = ("k", "s", "v")
"""The columns by which the job finds and reads its rows."""


def columns_for(schema: pa.Schema) -> list[tuple[str, str]]:
    """The names and types of the columns for rows of a schema."""
    return [(name, _type_of(field.type)) for whole in schema for name, field in _fields(whole)]


def _fields(field: pa.Field) -> Iterator[tuple[str, pa.Field]]:
    """A flat struct has a column for each of its fields."""
    if _is_flat(field.type):
        for each in field.type:
            yield f"{field.name}_{each.name}", each
    else:
        yield field.name, field


def _is_flat(data_type: pa.DataType) -> bool:
    return pa.types.is_struct(data_type) and not any(
        pa.types.is_nested(each.type) for each in data_type
    )


def _type_of(data_type: pa.DataType) -> str:
    return "bigint" if pa.types.is_duration(data_type) else created_as(data_type)


def shown_columns(rows: pa.Table) -> list[pa.Array]:
    """The columns of rows, in the order of ``columns_for``, as they travel."""
    found = []
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        parts = column.flatten() if _is_flat(column.type) else [column]
        found += [_plain(part) for part in parts]
    return found


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64())
    if pa.types.is_string(column.type):
        return pc.replace_substring(column, "\0", "\ufffd")
    if pa.types.is_binary(column.type):
        return as_hex(column.to_pylist())
    if pa.types.is_nested(column.type):
        values = [None if each is None else _json(each) for each in column.to_pylist()]
        return pa.array(values, pa.string())
    return column


def as_hex(values: list[bytes | None]) -> pa.Array:
    """Bytes as the server reads them."""
    return pa.array([None if v is None else f"\\x{v.hex()}" for v in values], pa.string())


def _json(value: Any) -> str:
    text = json.dumps(_jsonable(value), ensure_ascii=False)
    return text.replace("\\u0000", "\ufffd")


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else shown(value)
