"""Values as something that is equal only to the very same: -0.0 is not 0.0, and NaN is NaN."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa


def exact(value: Any) -> Any:
    """A value by its bits. The entries of a dict have no order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("float", struct.pack(">d", value))
    if isinstance(value, bool | str | bytes | int | type(None)):
        return (type(value).__name__, value)
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    if isinstance(value, datetime):
        return ("zoned", value.astimezone(timezone.utc)) if value.tzinfo else ("plain", value)
    if isinstance(value, dict):
        return ("dict", sorted(((exact(k), exact(v)) for k, v in value.items()), key=repr))
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    return (type(value).__name__, value)


def of_type(value: Any, data_type: pa.DataType) -> Any:
    """The same, for a value of which the type is known: the entries of a map have no order."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, dict) else value
        entries = [
            (of_type(k, data_type.key_type), of_type(v, data_type.item_type)) for k, v in pairs
        ]
        return ("map", sorted(entries, key=repr))
    if pa.types.is_struct(data_type):
        parts = (
            value
            if isinstance(value, dict)
            else dict(zip((f.name for f in data_type), value, strict=True))
        )
        return [(field.name, of_type(parts[field.name], field.type)) for field in data_type]
    if pa.types.is_list(data_type):
        return [of_type(each, data_type.value_type) for each in value]
    return exact(value)


def rows_of(rows: Iterable[Iterable[Any]], schema: pa.Schema) -> list[Any]:
    """Rows of a schema, each by its bits."""
    return [[of_type(v, f.type) for v, f in zip(row, schema, strict=True)] for row in rows]


def arrow_rows(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> list[Any]:
    """The same, of what Arrow holds; its columns are found by name."""
    columns = [table.column(name).to_pylist() for name in schema.names]
    return rows_of(zip(*columns, strict=True), schema)
