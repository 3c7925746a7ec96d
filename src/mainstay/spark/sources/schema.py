"""The schema of a PySpark data source, as Mainstay and as the data source know it.

A data source declares Spark's types, as a DDL string or a ``StructType``, and its readers and
writers are given a ``StructType``. Both are converted here without a JVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mainstay.errors import GraphError, SchemaError, named
from mainstay.schema import to_schema


@dataclass(frozen=True, slots=True)
class Columns:
    """The same columns twice: as Mainstay has them, and as PySpark does."""

    schema: pa.Schema
    struct: StructType


def columns_of(declared: Any, name: str) -> Columns:
    """The columns that a DDL string, a ``StructType`` or a pyarrow schema declares."""
    try:
        schema = to_schema(declared)
    except SchemaError as error:
        raise GraphError(
            f"the data source {name} has the schema {declared!r}, which a stream cannot have: "
            f"{error}. Leave out or cast the column, or give a schema of your own: "
            f"pyspark_source({name}(...), schema=...)."
        ) from error
    is_struct = isinstance(declared, StructType)
    return Columns(schema, declared if is_struct else from_arrow_schema(schema))


def columns_read_from(source: Any, schema: Any | None) -> Columns:
    """The columns that a data source gives: those that are asked for, or those it declares."""
    name = type(source).__name__
    return columns_of(_declared(source, name) if schema is None else schema, name)


def _declared(source: Any, name: str) -> Any:
    try:
        return source.schema()
    except PySparkNotImplementedError as error:
        raise GraphError(
            f"the data source {name} declares no schema. Say which columns it has: "
            f'pyspark_source({name}(...), schema="customer string, amount long").'
        ) from error
    except Exception as error:
        raise GraphError(
            f"the data source {name} cannot say its schema: {named(error)}. Correct its options."
        ) from error
