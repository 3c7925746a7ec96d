"""Rows as JSON records, an object each, written by the column. A hot path.

Values are spelled as ``json_rows`` says, which also writes those types that are rarer.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.connectors.formats.json_rows import json_rows

_CONTROL = r"[\x00-\x1f]"


def write(batch: pa.RecordBatch) -> list[bytes]:
    """Each row as one JSON object on one line."""
    parts = [
        _members(field.name, column)
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    if not parts:
        return [b"{}"] * batch.num_rows
    members = pc.ascii_rtrim(pc.binary_join_element_wise(*parts, ""), ",")
    objects = pc.binary_join_element_wise("{", members, "}", "")
    return objects.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]


def _members(name: str, column: pa.Array) -> pa.Array:
    """The column's part of every object: ``"name":value,`` or nothing where it is null."""
    values = _writer_of(column.type)(column)
    start = json.dumps(name, ensure_ascii=False) + ":"
    return pc.fill_null(pc.binary_join_element_wise(start, values, ",", ""), "")


def _writer_of(data_type: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_integer(data_type) or pa.types.is_boolean(data_type):
        return _plain
    if pa.types.is_floating(data_type):
        return _floats
    if pa.types.is_string(data_type):
        return _texts
    if pa.types.is_date(data_type) or pa.types.is_timestamp(data_type):
        return _times
    if pa.types.is_decimal(data_type):
        return _decimals
    return _others


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _floats(column: pa.Array) -> pa.Array:
    if pc.all(pc.is_finite(column)).as_py() is False:
        return _others(column)
    return column.cast(pa.string())


def _texts(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
        return _others(column)
    escaped = pc.replace_substring(column, "\\", "\\\\")
    return _quoted(pc.replace_substring(escaped, '"', '\\"'))


def _times(column: pa.Array) -> pa.Array:
    return _quoted(pc.replace_substring(column.cast(pa.string()), " ", "T"))


def _decimals(column: pa.Array) -> pa.Array:
    return _quoted(column.cast(pa.string()))


def _quoted(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', column, '"', "")


def _others(column: pa.Array) -> pa.Array:
    """One value after the other, for what has no writer by the column."""
    objects = json_rows(pa.record_batch([column], ["v"]))
    start = len('{"v":')
    texts = [None if text == "{}" else text[start:-1] for text in objects]
    return pa.array(texts, pa.string())
