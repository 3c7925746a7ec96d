"""Columns between Arrow and PostgreSQL: types that fit, tables that fit, and rows as text.

Rows travel as CSV, by ``COPY``, which both sides read and write in bulk. Lists, maps and structs
are JSON there.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv

from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.session import Session
from mainstay.errors import SinkError
from mainstay.schema import format_type

_TEXTS = ("text", "varchar", "bpchar", "name", "citext", "uuid", "json", "jsonb", "xml", "inet")
_SIMPLE: dict[pa.DataType, tuple[str, ...]] = {
    # The first is what a table is created with, all are what a column may be.
    pa.bool_(): ("boolean", "bool"),
    pa.int8(): ("smallint", "int2", "int4", "int8", "numeric"),
    pa.int16(): ("smallint", "int2", "int4", "int8", "numeric"),
    pa.int32(): ("integer", "int4", "int8", "numeric"),
    pa.int64(): ("bigint", "int8", "numeric"),
    pa.float32(): ("real", "float4", "float8"),
    pa.float64(): ("double precision", "float8"),
    pa.string(): ("text", *_TEXTS),
    pa.binary(): ("bytea", "bytea"),
    pa.date32(): ("date", "date"),
    pa.timestamp("us", tz="UTC"): ("timestamptz", "timestamptz"),
    pa.timestamp("us"): ("timestamp", "timestamp"),
}

MODIFIER_BASE = 4
"""What the server adds to the modifiers of numbers and texts."""
MICROSECONDS = 6


def created_as(data_type: pa.DataType) -> str:
    """The type of a column that is made for values of an Arrow type."""
    if pa.types.is_decimal(data_type):
        return f"numeric({data_type.precision},{data_type.scale})"
    return _SIMPLE[data_type][0] if data_type in _SIMPLE else "jsonb"


def fitting(data_type: pa.DataType) -> tuple[str, ...]:
    """The types of columns, by the server's own names, that take every value of an Arrow type."""
    if pa.types.is_decimal(data_type):
        return ("numeric",)
    return _SIMPLE[data_type][1:] if data_type in _SIMPLE else ("json", "jsonb")


# ---------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. ``type`` is the name of its base type; an enum counts as text."""

    name: str
    type: str
    shown_type: str
    is_required: bool
    """Whether a row cannot do without a value for it."""
    is_generated: bool
    modifier: int
    """What is in brackets after the type, as the server keeps it; below 0 where nothing is."""
    is_nullable: bool


def identifier(parts: Sequence[str]) -> Any:
    """A name, quoted."""
    return driver().sql.Identifier(*parts)


def joined(names: Collection[str]) -> Any:
    """Names in a row, each quoted."""
    sql = driver().sql
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def composed(template: str, *args: Any, **parts: Any) -> Any:
    """A statement of quoted parts; texts and numbers among them become literals."""
    sql = driver().sql

    def part(value: Any) -> Any:
        return value if isinstance(value, sql.Composable) else sql.Literal(value)

    return sql.SQL(template).format(
        *map(part, args), **{name: part(value) for name, value in parts.items()}
    )


_COLUMNS = """
SELECT a.attname,
       CASE WHEN b.typtype = 'e' THEN 'text' ELSE b.typname END,
       format_type(a.atttypid, a.atttypmod),
       (a.attnotnull OR t.typnotnull) AND NOT a.atthasdef AND a.attidentity = '',
       a.attgenerated <> '' OR a.attidentity = 'a',
       CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       NOT (a.attnotnull OR t.typnotnull)
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


def columns_of(session: Session, table: Sequence[str]) -> dict[str, Column] | None:
    """The columns of a table by their names, or None if there is no such table."""
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in table)
    found = [Column(*row) for row in session.ask(_COLUMNS, [quoted])]
    return {column.name: column for column in found} or None


def check_columns(schema: pa.Schema, columns: dict[str, Column], where: str) -> None:
    """Refuse a table into which the rows of a schema do not fit."""
    for field in schema:
        column = columns.get(field.name)
        shown = f"column {field.name!r} ({format_type(field.type)})"
        if column is None:
            raise SinkError(
                f"{where}: the stream's {shown} is not in the table, which has "
                f"{', '.join(columns)}. Rename or drop it in the stream, or run ALTER TABLE ... "
                f'ADD COLUMN "{field.name}" {created_as(field.type)}.'
            )
        if column.is_generated:
            raise SinkError(
                f"{where}: the table generates {field.name!r} by itself. Drop it in the stream."
            )
        if column.type not in fitting(field.type):
            raise SinkError(
                f"{where}: the stream's {shown} does not fit the table's, which is "
                f"{column.shown_type}. Cast it in the stream, or make the table's column "
                f"{created_as(field.type)}."
            )
        if (loss := loss_in(field.type, column)) is not None:
            raise SinkError(
                f"{where}: the stream's {shown} does not fit the table's, which is "
                f"{column.shown_type} and would {loss}. Cast it in the stream, or make the "
                f"table's column {created_as(field.type)}."
            )
    for column in columns.values():
        if column.is_required and column.name not in schema.names:
            raise SinkError(
                f"{where}: the table's column {column.name!r} needs a value, and the stream has "
                f"none ({', '.join(schema.names)}). Add it to the stream, or give it a default."
            )


def loss_in(data_type: pa.DataType, column: Column) -> str | None:
    """What a column does to some values of a type that it takes, without a word; None if nothing.

    What the server refuses by itself (a number that is too large) is no loss.
    """
    if column.modifier < 0:
        return None
    if column.type == "numeric":
        # Eleven bits with a sign, since PostgreSQL 15.
        kept = (((column.modifier - MODIFIER_BASE) & 0x7FF) ^ 0x400) - 0x400
        needed = data_type.scale if pa.types.is_decimal(data_type) else 0
        return f"round values to {kept} digits after the point" if kept < needed else None
    if column.type in ("timestamp", "timestamptz") and column.modifier < MICROSECONDS:
        return f"round values to {column.modifier} digits of a second"
    return None


def definitions(schema: pa.Schema) -> Any:
    """The columns of a table for the rows of a schema."""
    sql = driver().sql
    return sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(
            sql.Identifier(field.name),
            sql.SQL(created_as(field.type)),
            sql.SQL("NULL" if field.nullable else "NOT NULL"),
        )
        for field in schema
    )


# ---------------------------------------------------------------- rows to text


def to_csv(batch: pa.RecordBatch) -> bytes:
    """Rows as ``COPY ... (FORMAT csv)`` takes them: nothing is null, ``""`` the empty text."""
    columns = [
        as_plain(column, name)
        for column, name in zip(batch.columns, batch.schema.names, strict=True)
    ]
    plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    stream = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False)
    pyarrow.csv.write_csv(plain, stream, options)
    return stream.getvalue()


def as_plain(column: pa.Array, name: str) -> pa.Array:
    """A column as it travels: what CSV has no form for becomes text."""
    if pa.types.is_binary(column.type):
        values = (None if value is None else f"\\x{value.hex()}" for value in column.to_pylist())
        return pa.array(values, pa.string())
    if pa.types.is_nested(column.type):
        values = (
            None if value is None else _json(value, column.type, name)
            for value in column.to_pylist()
        )
        return pa.array(values, pa.string())
    return column


def _json(value: Any, data_type: pa.DataType, name: str) -> str:
    try:
        return json.dumps(_jsonable(value, data_type), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise SinkError(
            f"column {name!r}: the value {value!r} cannot be written as JSON: {error}. Replace it "
            "in the stream."
        ) from error


def _jsonable(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _jsonable(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        # By the type and not by the values: a map without entries is an object, too.
        pairs = [[_jsonable(key, data_type.key_type), each] for key, each in value]
        pairs = [[key, _jsonable(each, data_type.item_type)] for key, each in pairs]
        return dict(pairs) if pa.types.is_string(data_type.key_type) else pairs
    if pa.types.is_list(data_type):
        return [_jsonable(each, data_type.value_type) for each in value]
    return _jsonable_scalar(value)


def _jsonable_scalar(value: Any) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise ValueError("it has a zero byte, which no text in PostgreSQL can hold")
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("JSON has no such number")
    return value
