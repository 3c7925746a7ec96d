"""Rows of PostgreSQL as Arrow columns: the text of ``COPY ... TO STDOUT``, and what is wrong in it.

Text is parsed in bulk. Only where a value does not fit (a timestamp of infinity, a number with too
many digits, bytes that are no UTF-8) are the rows of that batch looked at one by one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from mainstay.connectors.formats.malformed import BadRecord
from mainstay.connectors.postgres.columns import Column, composed, fitting, identifier
from mainstay.connectors.postgres.json_values import from_json
from mainstay.errors import SchemaError, SourceError
from mainstay.schema import array_of, format_type

_INTEGERS = ("int2", "int4", "int8", "oid")
_READABLE: dict[pa.DataType, tuple[str, ...]] = {
    pa.int16(): ("int2",),
    pa.int32(): ("int2", "int4"),
    pa.int64(): _INTEGERS,
    pa.float32(): ("float4",),
    pa.float64(): ("float4", "float8", "int2", "int4"),
}
_DECLARED = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp": pa.timestamp("us"),
}


def declared(column: Column) -> pa.Field:
    """The field that a column can be read as; text where there is nothing better."""
    return pa.field(column.name, _DECLARED.get(column.type, pa.string()))


def check_readable(schema: pa.Schema, columns: dict[str, Column], where: str) -> None:
    """Refuse a schema that a table's rows do not fit."""
    for field in schema:
        column = columns.get(field.name)
        if column is None:
            raise SourceError(
                f"{where} has no column {field.name!r}; it has {', '.join(columns)}. Correct the "
                "schema."
            )
        if not _is_readable(field.type, column.type):
            raise SourceError(
                f"{where}: column {field.name!r} is {column.shown_type}, which is not read as "
                f"{format_type(field.type)}. Write {format_type(declared(column).type)} or string "
                "in the schema."
            )


def _is_readable(data_type: pa.DataType, column_type: str) -> bool:
    if data_type == pa.string():
        return True
    if pa.types.is_nested(data_type):
        # Arrays have names with an underscore before that of their elements.
        return column_type in ("json", "jsonb") or column_type.startswith("_")
    if pa.types.is_decimal(data_type):
        return column_type in ("numeric", *_INTEGERS)
    return column_type in _READABLE.get(data_type, fitting(data_type))


def selected(schema: pa.Schema) -> list[Any]:
    """The expressions that give a row's values as text."""
    return [composed(_expression(field.type), identifier([field.name])) for field in schema]


def _expression(data_type: pa.DataType) -> str:
    if pa.types.is_nested(data_type):
        return "to_json({})"
    return "{}::text" if data_type == pa.string() else "{}"


def _parse_type(data_type: pa.DataType) -> pa.DataType:
    is_encoded = pa.types.is_nested(data_type) or pa.types.is_binary(data_type)
    return pa.string() if is_encoded else data_type


def from_csv(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a text; raises where one does not fit the schema."""
    table = _parsed(data, schema.names, [_parse_type(field.type) for field in schema])
    columns = [_decoded(table.column(place), field) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def texts_of(data: bytes, names: Sequence[str]) -> pa.Table:
    """The same, with every value as the bytes of its text."""
    return _parsed(data, names, [pa.binary()] * len(names))


def _parsed(data: bytes, names: Sequence[str], types: Sequence[pa.DataType]) -> pa.Table:
    # By number: a table may have columns that differ only for us.
    numbered = [str(number) for number in range(len(names))]
    csv = pyarrow.csv
    return csv.read_csv(
        io.BytesIO(data),
        csv.ReadOptions(column_names=numbered, use_threads=False, block_size=max(len(data), 1)),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict(zip(numbered, types, strict=True)),
            null_values=[""],
            true_values=["t", "true"],
            false_values=["f", "false"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _decoded(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise SchemaError(f"column {field.name!r} is null, and the schema says NOT NULL")
    data_type = field.type
    if pa.types.is_binary(data_type):
        values = [None if text is None else bytes.fromhex(text[2:]) for text in column.to_pylist()]
        return pa.array(values, data_type)
    if pa.types.is_nested(data_type):
        texts = column.to_pylist()
        values = [None if text is None else _from_json(text, field) for text in texts]
        return array_of(values, data_type, f"column {field.name!r}")
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, data_type)
    if pa.types.is_decimal(data_type):
        _check_digits(array, field)
    return array


def _from_json(text: str, field: pa.Field) -> Any:
    try:
        return from_json(text, field.type)
    except ValueError as error:
        raise SchemaError(f"column {field.name!r}: {error}") from error


def _check_digits(array: pa.Array, field: pa.Field) -> None:
    # The parser looks only at the digits after the point.
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"column {field.name!r}: {error}") from error


def _line_of(row: Sequence[bytes | None]) -> bytes:
    """A row as a line of CSV, whatever bytes are in it."""
    quoted = (b"" if value is None else b'"' + value.replace(b'"', b'""') + b'"' for value in row)
    return b",".join(quoted) + b"\n"


def _with_name(error: str, schema: pa.Schema) -> str:
    """The parser's words, with the name of the column instead of its number."""
    return _NUMBERED.sub(lambda found: f"column {schema.names[int(found[1])]!r}", error, count=1)


_NUMBERED = re.compile(r"In CSV column #(\d+)")

UNFIT = (pa.ArrowException, SchemaError, ValueError)


def sorted_out(
    texts: pa.Table, schema: pa.Schema, positions: Sequence[str]
) -> tuple[pa.RecordBatch, dict[int, BadRecord]]:
    """The rows that fit, and those that do not by their numbers."""
    good: list[pa.RecordBatch] = []
    bad: dict[int, BadRecord] = {}
    rows = zip(*(column.to_pylist() for column in texts.columns), strict=True)
    for number, row in enumerate(rows):
        line = _line_of(row)
        try:
            good.append(from_csv(line, schema))
        except UNFIT as error:
            told = _with_name(str(error), schema)
            bad[number] = BadRecord(positions[number], told, line.rstrip(b"\n"))
    columns = pa.Table.from_batches(good, schema).combine_chunks().columns
    arrays = [
        pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema), bad
