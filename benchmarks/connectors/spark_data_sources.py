"""Rows a second through PySpark data sources, beside their readers and writers by themselves.

``python -m benchmarks.connectors.spark_data_sources`` writes
``benchmarks/results/connectors-spark-data-sources.md``. The job is a whole one in one process. The
bare loop calls ``read`` or ``write`` of the same data source and does what Spark does around it:
tuples become Arrow by Spark's own converters, and Arrow becomes Rows.
"""

# ruff: noqa: N802 - the names are PySpark's

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from benchmarks.connectors.files import BATCH, SCHEMA, Counting, Given, job, orders
from benchmarks.report import Table, add_beside, write_report
from mainstay.spark import pyspark_sink, pyspark_source
from mainstay.spark.sources.rows import to_batches, to_rows
from mainstay.spark.sources.schema import columns_of

ROWS = 300_000
REPEATS = 3
COLUMNS = columns_of(SCHEMA, "Orders")
RESULT = Path(__file__).parents[1] / "results" / "connectors-spark-data-sources.md"


class Orders(DataSource):
    """Rows that were made before, as tuples or as record batches."""

    def schema(self) -> Any:
        return COLUMNS.struct

    def reader(self, schema: Any) -> DataSourceReader:
        return OrdersReader(int(self.options["rows"]), self.options["as"])

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return ArrowWriter() if self.options["as"] == "batches" else RowWriter()


class OrdersReader(DataSourceReader):
    def __init__(self, rows: int, given: str) -> None:
        self.rows = rows
        self.given = given

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = orders(self.rows)
        if self.given == "tuples":
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        else:
            yield from pieces_of(batch)


class RowWriter(DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class ArrowWriter(RowWriter, DataSourceStreamArrowWriter):
    pass


def pieces_of(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [batch.slice(at, BATCH) for at in range(0, batch.num_rows, BATCH)]


def bare_read(source: Orders) -> float:
    began = time.perf_counter()
    rows = source.reader(COLUMNS.struct).read(InputPartition(None))
    for _ in to_batches(rows, COLUMNS, "the bare loop"):
        pass
    return time.perf_counter() - began


def bare_write(source: Orders, batch: pa.RecordBatch) -> float:
    began = time.perf_counter()
    writer, pieces = source.streamWriter(COLUMNS.struct, False), pieces_of(batch)
    is_arrow = isinstance(writer, ArrowWriter)
    writer.write(iter(pieces) if is_arrow else to_rows(pieces, COLUMNS))
    return time.perf_counter() - began


def measure(rows: int = ROWS, repeats: int = REPEATS) -> Table:
    table = Table("PySpark data sources", ["what", "rows/s", "by itself rows/s", "ratio"])
    batch = orders(rows)
    folder = Path(tempfile.mkdtemp())
    try:
        for given in ("tuples", "batches"):
            source = Orders({"rows": str(rows), "as": given})
            read, bare, written, alone = [], [], [], []
            for turn in range(repeats):
                place = folder / f"{given}-{turn}"
                read.append(job(pyspark_source(source), Counting(), place / "read"))
                bare.append(bare_read(source))
                sink = pyspark_sink(source, SCHEMA)
                written.append(job(Given(batch), sink, place / "written"))
                alone.append(bare_write(source, batch))
            add_beside(table, f"reading {given}", rows, read, bare)
            add_beside(table, f"writing {given.replace('tuples', 'rows')}", rows, written, alone)
    finally:
        shutil.rmtree(folder)
    return table


def main() -> None:
    note = (
        f"{ROWS:,} rows of four columns, one subtask, an epoch a second, the median of {REPEATS}. "
        "A job's time includes starting it and its last epoch. By itself: the same reader or "
        "writer in a loop, with Spark's converters."
    )
    write_report(RESULT, "PySpark data sources", note, [measure()])


if __name__ == "__main__":
    main()
