"""JSON records: objects that each are one row, read and written by the column. A hot path.

Values are spelled as ``json_rows`` says, which also writes those types that are rarer.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from mainstay.connectors.json_rows import json_rows
from mainstay.connectors.text_times import timestamps_of
from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.types import TIMESTAMP

ERRORS = (pa.ArrowException, SchemaError, ValueError)
"""What ``parse`` raises for records that do not fit."""

_CONTROL = r"[\x00-\x1f]"
_UNSAFE = re.compile(rb"[^\s]")


# ------------------------------------------------------------ reading


def parse(records: Sequence[bytes | None], schema: pa.Schema) -> pa.RecordBatch:
    """A row for each record, of the declared columns; None is a row of nulls.

    Raises one of ``ERRORS`` if any record is no object or does not fit; which one it is shows when
    they are parsed apart.
    """
    objects = [b"{}" if record is None else record for record in records]
    if not all(map(_is_object_like, objects)):
        raise SchemaError("a record must hold one JSON object")
    data = b"\n".join(objects)
    fields = [pa.field(field.name, _parsed_type(field.type)) for field in schema]
    table = pa.json.read_json(
        io.BytesIO(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=pa.schema(fields),
            unexpected_field_behavior="ignore",
            newlines_in_values=True,
        ),
    )
    # Each gives at least one row, so that equal numbers mean one row for each.
    if table.num_rows != len(objects):
        raise SchemaError("a record must hold one JSON object and nothing else")
    batch = table.combine_chunks().to_batches()[0]
    columns = [_fitted(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_object_like(record: bytes) -> bool:
    if record[:1] == b"{":
        return True
    first = _UNSAFE.search(record)
    return first is not None and first.group() == b"{"


def _parsed_type(data_type: pa.DataType) -> pa.DataType:
    """What a column is parsed as: pyarrow's own parser is particular about times and bytes."""
    if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        return pa.string()
    return pa.string() if pa.types.is_binary(data_type) else data_type


def _fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    check_not_null(column, field, f"column {field.name!r}")
    if column.type == field.type:
        return column
    try:
        if field.type == TIMESTAMP:
            return timestamps_of(column)
        if pa.types.is_binary(field.type):
            texts = column.to_pylist()
            return pa.array([_unbase64(text) for text in texts], pa.binary())
        return column.cast(field.type)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaError(
            f"column {field.name!r} is no {format_type(field.type)}: {error}"
        ) from error


def _unbase64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


# ------------------------------------------------------------ writing


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
