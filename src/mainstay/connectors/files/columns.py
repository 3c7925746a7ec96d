"""The columns of a file as those of a schema."""

from __future__ import annotations

import pyarrow as pa

from mainstay.connectors.formats.soundness import check_values
from mainstay.connectors.formats.text_numbers import floats_of, integers_of
from mainstay.connectors.formats.text_times import timestamps_of
from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import check_not_null
from mainstay.schema.types import TIMESTAMP
from mainstay.spelling import one_of


def check_columns(schema: pa.Schema, names: list[str], hint: str = "") -> None:
    missing = [repr(name) for name in schema.names if name not in names]
    if missing:
        found = one_of(names)
        raise SchemaError(f"there is no column {', '.join(missing)}; it has {found}{hint}")
    if twice := [repr(name) for name in schema.names if names.count(name) > 1]:
        raise SchemaError(
            f"it has the column {', '.join(twice)} more than once, and which is meant cannot be "
            "known. Give each column of the header a name of its own"
        )


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = _cast(batch.column(field.name), field)
        check_values(column, field.name)
        check_not_null(column, field, f"column {field.name!r}")
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_string(column.type) and field.type == TIMESTAMP:
            return timestamps_of(column)
        if pa.types.is_string(column.type) and pa.types.is_integer(field.type):
            return integers_of(column, field.type)
        if pa.types.is_string(column.type) and pa.types.is_floating(field.type):
            return floats_of(column, field.type)
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(
            f"column {field.name!r} of type {column.type} is no {format_type(field.type)}: {error}"
        ) from error
