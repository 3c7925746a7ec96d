"""Between the Python values of a data source and record batches, by Spark's own rules.

A data source written for Spark may count on how Spark takes its values: a number in a text column
becomes text, a naive datetime in a timestamp column is local time. So Spark's own converters are
used, in both directions. Only this module knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion

from mainstay.errors import SourceError, named
from mainstay.schema import format_schema
from mainstay.spark.sources.schema import Columns

CHUNK_ROWS = 2048
"""How many rows are converted at a time."""


def to_batches(elements: Iterable[Any], columns: Columns, place: str) -> Iterator[pa.RecordBatch]:
    """What a reader yields (tuples, lists, Rows or record batches) as batches of the schema."""
    rows: list[Any] = []
    for element in elements:
        if isinstance(element, pa.RecordBatch):
            if rows:
                yield _converted(rows, columns, place)
                rows = []
            yield _fitted(element, columns, place)
            continue
        rows.append(element)
        if len(rows) == CHUNK_ROWS:
            yield _converted(rows, columns, place)
            rows = []
    if rows:
        yield _converted(rows, columns, place)


def to_rows(batches: Sequence[pa.RecordBatch], columns: Columns) -> Iterator[Row]:
    """The rows of batches as Spark's writers get them."""
    for batch in batches:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            table = pa.Table.from_batches([batch.slice(start, CHUNK_ROWS)])
            yield from ArrowTableToRowsConversion.convert(table, columns.struct)


def _converted(rows: list[Any], columns: Columns, place: str) -> pa.RecordBatch:
    names = columns.schema.names
    try:
        tuples = [_tuple_of(row, names) for row in rows]
        table = LocalDataToArrowConversion.convert(tuples, columns.struct, False)
        return _only_batch(table.cast(columns.schema))
    except Exception as error:
        # Spark's converters say what is wrong in many ways, some without a word.
        raise SourceError(
            f"{place} gave a row that does not fit {format_schema(columns.schema)!r}: "
            f"{named(error)}; the rows begin with {rows[0]!r}. Correct what the "
            "data source yields, or the schema it declares."
        ) from error


def _tuple_of(row: Any, names: Sequence[str]) -> tuple[Any, ...]:
    if not isinstance(row, list | tuple):
        raise TypeError(
            f"{row!r} is no tuple, list, pyspark.sql.Row or pyarrow.RecordBatch, which are what a "
            "reader may yield"
        )
    if len(row) != len(names):
        raise ValueError(f"{row!r} has {len(row)} values for {len(names)} columns")
    if isinstance(row, Row) and hasattr(row, "__fields__"):
        return tuple(row[name] for name in names)
    return tuple(row)


def _fitted(batch: pa.RecordBatch, columns: Columns, place: str) -> pa.RecordBatch:
    schema = columns.schema
    if sorted(batch.schema.names) != sorted(schema.names):
        raise SourceError(
            f"{place} gave a record batch with the columns {batch.schema.names}; its schema is "
            f"{format_schema(schema)!r}. Correct what the data source yields, or the schema."
        )
    try:
        return _only_batch(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(
            f"{place} gave a record batch of {batch.schema.types} for "
            f"{format_schema(schema)!r}: {error}. Correct what the data source yields, or the "
            "schema."
        ) from error


def _only_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else table.schema.empty_table().to_batches()[0]
