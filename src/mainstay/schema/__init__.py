"""Types and rows: Spark's DDL, pyarrow's schemas, and the Python values in between."""

from mainstay.schema.arrays import array_of
from mainstay.schema.convert import to_schema, to_type
from mainstay.schema.ddl import format_schema, format_type, parse_schema, parse_type
from mainstay.schema.row import Row, row_class
from mainstay.schema.rows import batch_to_rows, columns_to_rows, rows_to_batch, rows_to_batches
from mainstay.schema.values import values_of

__all__ = [
    "Row",
    "array_of",
    "batch_to_rows",
    "columns_to_rows",
    "format_schema",
    "format_type",
    "parse_schema",
    "parse_type",
    "row_class",
    "rows_to_batch",
    "rows_to_batches",
    "to_schema",
    "to_type",
    "values_of",
]
