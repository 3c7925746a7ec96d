"""PySpark's data sources as a source or a sink, recognised without importing PySpark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError


def is_data_source(value: Any) -> bool:
    """Whether it is an instance of a subclass of ``pyspark.sql.datasource.DataSource``."""
    return any(
        (cls.__module__, cls.__name__) == ("pyspark.sql.datasource", "DataSource")
        for cls in type(value).__mro__
    )


def as_source(value: Any, where: str) -> Any:
    """A data source as a source; anything else as it is."""
    if not is_data_source(value):
        return value
    from mainstay.spark.sources.source import pyspark_source

    try:
        return pyspark_source(value)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error


def as_sink(value: Any, schema: pa.Schema, where: str) -> Any:
    """A data source as a sink for rows of a schema; anything else as it is."""
    if not is_data_source(value):
        return value
    from mainstay.spark.sources.writer_sink import pyspark_sink

    try:
        return pyspark_sink(value, schema)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error
