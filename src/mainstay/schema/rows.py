"""Between a record batch and the rows that row-at-a-time functions take and return. A hot path.

Both directions work on whole columns: the cost of a row is that of one tuple.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NoReturn

import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.schema.arrays import array_of, check_not_null
from mainstay.schema.row import Row, row_class
from mainstay.schema.sizes import halved
from mainstay.schema.transpose import columns_of, hint_of
from mainstay.schema.values import values_of

__all__ = [
    "Row",
    "batch_to_rows",
    "columns_to_rows",
    "row_class",
    "rows_to_batch",
    "rows_to_batches",
]


def batch_to_rows(batch: pa.RecordBatch, cls: type[Row]) -> list[Row]:
    """The rows of a batch, as instances of the row class of its schema."""
    columns = [values_of(column) for column in batch.columns]
    return list(columns_to_rows(columns, batch.num_rows, cls))


def columns_to_rows(columns: Sequence[list[Any]], count: int, cls: type[Row]) -> Iterator[Row]:
    """Columns of values, each of ``count``, as rows."""
    return map(cls, zip(*columns, strict=True)) if columns else repeat(cls(()), count)


def rows_to_batches(rows: Sequence[Any], schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """The rows as batches: one, unless that cannot hold them."""

    def refuse(row: Any) -> NoReturn:
        raise SchemaError(
            f"{where}: a row takes more than 2 GiB, which is the most that can be sent or stored. "
            "Divide it into several rows."
        )

    return halved(rows, lambda some: rows_to_batch(some, schema, where), refuse)


def rows_to_batch(rows: Sequence[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
    """The rows as a batch of the declared schema; ``where`` names the operator in errors.

    What a row may be is said by ``columns_of``, what a value may be by ``array_of``; a row or value
    that does not fit is a SchemaError with the column, the value and the declared type.
    """
    columns = columns_of(rows, tuple(schema.names), where)
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        place = f"{where}, column {field.name!r}"
        array = _array(values, field, place, rows)
        check_not_null(array, field, place)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], field: pa.Field, place: str, rows: Sequence[Any]) -> pa.Array:
    try:
        return array_of(values, field.type, place)
    except SchemaError as error:
        # A list of rows may have as many of them as a row has columns.
        hint = next((hint for hint in map(hint_of, rows) if hint), "")
        raise (SchemaError(f"{error}{hint}") if hint else error) from error.__cause__
