"""What the Parquet sink commits, as Spark itself reads it."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, ParquetSink, SinkContext, SinkWriter, read_committed
from mainstay.schema import rows_to_batch, to_schema
from tests.sinks import prepare, recovery, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SUBTASKS = 2


class Directory:
    """A sink with subtasks of its own; each epoch has one row from each."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.sink = ParquetSink(path, **options)
        self.sink.recover(recovery(1))
        self.epochs = 0
        self.writers = [self.writer(subtask) for subtask in range(SUBTASKS)]

    def writer(self, subtask: int, attempt: int = 1) -> SinkWriter:
        return self.sink.open(SinkContext("out", subtask, attempt, "job"))

    def prepare(self) -> list[bytes]:
        self.epochs += 1
        handles = []
        for subtask, writer in enumerate(self.writers):
            row = (self.epochs, subtask)
            write(writer, rows_to_batch([row], to_schema("epoch long, subtask int"), "a test"))
            handle = prepare(writer, self.epochs)
            assert handle is not None
            handles.append(handle)
        return handles

    def commit_up_to(self, epochs: int) -> None:
        while self.epochs < epochs:
            handles = self.prepare()
            self.sink.commit_epoch(self.epochs, handles)


def expected(epochs: int) -> list[tuple[int, int]]:
    return [(epoch, subtask) for epoch in range(1, epochs + 1) for subtask in range(SUBTASKS)]


def read(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.read.parquet(str(path)).collect()))


def test_spark_sees_the_committed_epochs_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out")
    for epochs in (1, 9, 10, 11, 25):
        directory.commit_up_to(epochs)
        assert read(spark, directory.path) == expected(epochs)
    directory.prepare()
    assert len(list(directory.path.glob("part-*"))) == 26 * SUBTASKS
    assert read(spark, directory.path) == expected(25)


def test_spark_sees_nothing_before_the_first_commit(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "out")
    directory.prepare()
    frame = spark.read.schema("epoch long, subtask int").parquet(str(directory.path))
    assert frame.count() == 0


def test_spark_sees_all_epochs_after_old_batches_of_the_log_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out")
    directory.commit_up_to(141)
    assert not (directory.path / "_spark_metadata" / "0").exists()
    assert read(spark, directory.path) == expected(141)


def test_spark_sees_each_row_once_at_every_moment_while_small_files_are_merged(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out", compact="1MiB")
    directory.commit_up_to(8)
    before = spark.read.parquet(str(directory.path))
    for epochs in (9, 10, 18, 19, 20, 31):
        directory.commit_up_to(epochs)
        assert read(spark, directory.path) == expected(epochs)
    assert len(spark.read.parquet(str(directory.path)).inputFiles()) < 31
    # This one has the listing of before, whose files are kept for it.
    assert sorted(map(tuple, before.collect())) == expected(8)
    directory.sink.recover(recovery(2))
    assert read(spark, directory.path) == expected(31)
    assert sorted(map(tuple, before.collect())) == expected(8)


def test_a_spark_stream_follows_the_commits_and_takes_each_file_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out")
    directory.commit_up_to(1)
    frame = spark.readStream.schema("epoch long, subtask int").parquet(str(directory.path))
    query = (
        frame.writeStream.format("memory")
        .queryName("followed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for epochs in (1, 9, 10, 11, 25):
            directory.commit_up_to(epochs)
            uncommitted = directory.prepare()
            query.processAllAvailable()
            followed = sorted(map(tuple, spark.table("followed").collect()))
            assert followed == expected(epochs)
            directory.sink.commit_epoch(directory.epochs, uncommitted)
    finally:
        query.stop()


def test_a_spark_stream_takes_a_merged_file_for_new_rows_as_the_page_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out", compact="1MiB")
    directory.commit_up_to(8)
    frame = spark.readStream.schema("epoch long, subtask int").parquet(str(directory.path))
    query = (
        frame.writeStream.format("memory")
        .queryName("merged")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        directory.commit_up_to(9)
        query.processAllAvailable()
        followed = sorted(map(tuple, spark.table("merged").where("epoch <= 8").collect()))
        assert followed == sorted(expected(8) * 2)
    finally:
        query.stop()


def test_spark_sees_an_epoch_once_that_was_committed_twice_and_cleaned_up_after(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = Directory(tmp_path / "out")
    directory.commit_up_to(9)
    handles = directory.prepare()
    for _ in range(2):
        ParquetSink(directory.path).commit_epoch(10, handles)
    directory.prepare()
    directory.sink.recover(recovery(2))
    assert len(list(directory.path.glob("part-*"))) == 10 * SUBTASKS
    assert read(spark, directory.path) == expected(10)


def test_every_type_arrives_in_spark_as_what_it_was(spark: SparkSession, tmp_path: Path) -> None:
    ddl = (
        "flag boolean, tiny byte, small short, medium int, big long, ratio float, exact double, "
        "price decimal(10,2), name string, raw binary, day date, at timestamp, "
        "wall timestamp_ntz, tags array<string>, counts map<string,long>, "
        "inner struct<a:int,b:timestamp>"
    )
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=timezone.utc)
    wall = at.replace(tzinfo=None)
    row = (
        *(True, 1, 2, 3, 4, 0.5, 0.25, Decimal("12.34"), "é", b"\x00\xff", date(1969, 7, 20)),
        *(at, wall, ["x", "y"], {"k": 7}, (5, at)),
    )
    sink = ParquetSink(tmp_path / "out")
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    write(writer, rows_to_batch([row, (None,) * len(row)], to_schema(ddl), "a test"))
    handle = prepare(writer, 1)
    assert handle is not None
    sink.commit_epoch(1, [handle])
    frame = spark.read.parquet(str(tmp_path / "out"))
    assert to_schema(frame.schema) == to_schema(ddl)
    seconds = frame.selectExpr("unix_micros(at) AS at", "cast(wall AS string) AS wall").collect()
    assert tuple(seconds[0]) == (int(at.timestamp()) * 1_000_000 + 123456, str(wall))
    others = frame.drop("at", "wall", "inner").collect()
    assert tuple(others[0]) == row[:11] + row[13:15]
    assert tuple(others[1]) == (None,) * 13


def test_a_directory_whose_name_uris_escape_is_read(spark: SparkSession, tmp_path: Path) -> None:
    directory = Directory(tmp_path / "a dir%20 +é#x")
    directory.commit_up_to(2)
    assert read(spark, directory.path) == expected(2)


def test_what_a_spark_stream_wrote_is_read_by_its_log(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(20).repartition(4).write.parquet(str(tmp_path / "in"))
    query = (
        spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start(str(tmp_path / "a dir%20 +é#x"))
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    directory = tmp_path / "a dir%20 +é#x"
    written = {str(path) for path in directory.glob("*.parquet")}
    (directory / "not-listed.parquet").write_text("left by a task that failed")
    assert {split.id for split in Files(directory).plan(frozenset())} == written
    assert sorted(read_committed(directory).column("id").to_pylist()) == list(range(20))


def test_a_job_on_spark_is_read_by_the_same_spark(spark: SparkSession, tmp_path: Path) -> None:
    env = ms.Environment(
        spark=spark, parallelism=2, snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms")
    )
    numbers = ms.connectors.Sequence(end=6000, rows_per_second=3000)
    env.source(numbers, uid="numbers").key_by("id").sink(ParquetSink(tmp_path / "out"), uid="out")
    assert env.start("numbers").wait(60) == "finished"
    frame = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.id for row in frame.collect()) == list(range(6000))
    assert len(list((tmp_path / "out" / "_spark_metadata").iterdir())) > 1
