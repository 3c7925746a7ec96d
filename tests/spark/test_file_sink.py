"""What the file sinks write, as Spark itself reads it: formats, directories of values, epochs."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstay.connectors import ParquetSink, SinkContext
from mainstay.connectors.files.sink import FileSink
from mainstay.schema import rows_to_batch, to_schema
from tests.sinks import prepare, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "n int, text string, at timestamp, day date, kind string"
KINDS = ["plain", "a b", "a/b", "a=b", "50%", "é", "x:y?z*", "'\"", None, "[1]^{}\\#"]
AT = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=timezone.utc)


def rows() -> list[tuple[Any, ...]]:
    texts = ["plain", 'a "quoted", one', "two\nlines", "", None]
    days = [date(2024, 5, 1), None]
    return [(n, texts[n % 5], AT, days[n % 2], KINDS[n % 10]) for n in range(40)]


def written(sink: FileSink | ParquetSink) -> None:
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    write(writer, rows_to_batch(rows(), to_schema(SCHEMA), "a test"))
    handle = prepare(writer, 1)
    assert handle is not None
    sink.commit_epoch(1, [handle])


def read(spark: SparkSession, path: Path, format: str) -> list[tuple[Any, ...]]:
    options = {"header": "true", "escape": '"', "multiLine": "true"} if format == "csv" else {}
    frame = spark.read.schema(SCHEMA).options(**options).format(format).load(str(path))
    shown = frame.selectExpr("n", "text", "unix_micros(at) AS at", "day", "kind")
    return sorted(map(tuple, shown.collect()))


def expected(format: str) -> list[tuple[Any, ...]]:
    micros = int(AT.timestamp()) * 1_000_000 + 123456
    # Spark takes "" of CSV for null, whatever it is told to take for the empty text.
    return sorted(
        (n, None if format == "csv" and text == "" else text, micros, day, kind)
        for n, text, _, day, kind in rows()
    )


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_spark_reads_a_plain_directory_with_directories_of_values(
    spark: SparkSession, tmp_path: Path, format: str, compression: str | None
) -> None:
    path = tmp_path / "out"
    written(FileSink(path, format=format, compression=compression, partition_by=["day", "kind"]))
    found = read(spark, path, format)
    assert [tuple(row) for row in found] == expected(format)


def test_spark_reads_directories_of_values_by_its_log(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = ParquetSink(path, partition_by=["day", "kind"])
    written(sink)
    uncommitted = sink.open(SinkContext("out", 0, 1, "job"))
    write(uncommitted, rows_to_batch(rows(), to_schema(SCHEMA), "a test"))
    assert prepare(uncommitted, 2) is not None
    assert read(spark, path, "parquet") == expected("parquet")
