"""Any data source of PySpark as a source of a job.

::

    env.source(Orders({"topic": "orders"}), uid="orders")
    env.source(pyspark_source(Orders({"topic": "orders"}), deterministic=True), uid="orders")

Which of its readers is driven is what Spark would choose: ``streamReader``, else
``simpleStreamReader``; a data source that has neither, or ``batch=True``, is read once by its
``reader``.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource

from mainstay.errors import GraphError
from mainstay.quantities import seconds
from mainstay.runtime.connector import Source
from mainstay.spark.sources.batch import BatchReaderSource
from mainstay.spark.sources.schema import columns_read_from
from mainstay.spark.sources.stream import SimpleReaderSource, StreamReaderSource


def pyspark_source(
    data_source: Any,
    *,
    schema: Any | None = None,
    batch: bool = False,
    deterministic: bool = False,
    every: str | float = "1s",
) -> Source:
    """A source that reads a data source; ``env.source(data_source)`` is this with the defaults.

    ``schema`` is for a data source that declares none, or that gives whichever is asked for.
    ``deterministic`` promises that ``read(partition)`` gives the same rows in the same order
    whenever it is called: then a snapshot need not wait for the end of a partition. ``every`` is
    how long after a look for new offsets the next is taken.
    """
    if not isinstance(data_source, DataSource):
        raise GraphError(
            f"pyspark_source({data_source!r}) needs an instance of a subclass of "
            "pyspark.sql.datasource.DataSource."
        )
    every_s = seconds(every, "every", positive=True)
    kind = _reader_of(data_source, batch)
    columns = columns_read_from(data_source, schema)
    if kind == "reader":
        return BatchReaderSource(data_source, columns, deterministic=deterministic)
    if kind == "streamReader":
        return StreamReaderSource(data_source, columns, every_s, deterministic=deterministic)
    return SimpleReaderSource(data_source, columns, every_s)


def _reader_of(data_source: DataSource, batch: bool) -> str:
    """The name of the method that makes the reader to use."""
    kinds = ("reader",) if batch else ("streamReader", "simpleStreamReader", "reader")
    for kind in kinds:
        if getattr(type(data_source), kind) is not getattr(DataSource, kind):
            return kind
    raise GraphError(
        f"the data source {type(data_source).__name__} cannot be read: it has no "
        f"{' and no '.join(kinds)} method. Implement one of them."
    )
