"""DataFrames as streams: every row exactly once, batch and streaming, through ends and kills."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.ingest.log import IngestLog, Mark
from mainstay.errors import SourceError
from mainstay.snapshot.object_storage import open_storage
from mainstay.spark.ingest.dataframes import ingest_of

pytestmark = pytest.mark.spark

PATIENCE_S = 90.0


class Total(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        yield ctx.key, row.n, self.total.get()


class Slow(Total):
    """Takes its time, so that a job can be met half-way."""

    def process(self, row: Any, ctx: Any) -> Any:
        time.sleep(0.0005)
        yield from super().process(row, ctx)


def started(
    df: Any,
    directory: Path,
    function: ms.KeyedProcess,
    sink: ms.connectors.Memory,
    *,
    restore: Any = None,
    every: str = "1s",
) -> Any:
    env = ms.Environment(
        spark=df.sparkSession,
        parallelism=2,
        snapshots=ms.Snapshots(directory, every=every),
        restart=ms.Restart(backoff="100ms"),
        restore=restore,
    )
    (
        env.from_dataframe(df, uid="numbers")
        .key_by("k")
        .process(function, "k long, n long, total long", uid="totals")
        .sink(sink, uid="out")
    )
    return env.start("totals-of-numbers")


@pytest.fixture
def sink() -> ms.connectors.Memory:
    return ms.connectors.Memory()


def await_that(condition: Callable[[], bool], job: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert job.status not in ("failed", "cancelled", "finished"), job.wait()
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE_S} s"
        time.sleep(0.05)


def totals(rows: list[tuple[int, int, int]]) -> dict[int, int]:
    """The last total of each key: totals only grow."""
    return {key: max(total for k, _, total in rows if k == key) for key in {r[0] for r in rows}}


def check_each_once(rows: list[tuple[int, int, int]], numbers: Sequence[int]) -> None:
    assert Counter(n for _, n, _ in rows) == Counter(numbers)
    assert totals(rows) == {k: sum(n for n in numbers if n % 7 == k) for k in range(7)}


def numbers_of(spark: Any, count: int) -> Any:
    return spark.range(0, count, 1, 5).selectExpr("id % 7 as k", "id as n")


def log_of(directory: Path) -> IngestLog:
    return IngestLog(open_storage(str(directory)), "numbers")


def written_files(directory: Path) -> list[tuple[str, int]]:
    found = sorted((directory / "ingest").rglob("*.arrow"))
    return [(path.name, path.stat().st_mtime_ns) for path in found]


# ---------------------------------------------------------------- batch


def test_a_batch_dataframe_gives_what_spark_itself_sums(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    df = numbers_of(spark, 20_000)
    job = started(df, tmp_path / "job", Total(), sink)
    assert job.wait(PATIENCE_S) == "finished"
    sums = df.groupBy("k").sum("n").collect()
    assert totals(sink.rows()) == {row["k"]: row["sum(n)"] for row in sums}
    check_each_once(sink.rows(), range(20_000))
    again = started(numbers_of(spark, 20_000), tmp_path / "job", Total(), sink, restore="latest")
    assert (again.wait(PATIENCE_S), again.attempts()) == ("finished", [])
    assert "no new input since" in again.restored[0]
    assert "a batch DataFrame is read once" in again.restored[1]
    check_each_once(sink.rows(), range(20_000))


def test_a_restored_job_does_not_write_its_dataframe_again(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    # Wide rows, so that they do not all fit on their way to the slow function.
    df = numbers_of(spark, 20_000).selectExpr("*", "repeat(cast(n as string), 200) as wide")
    job = started(df, tmp_path, Slow(), sink, every="200ms")
    await_that(lambda: len(sink.rows()) > 0, job, "a committed row")
    job.cancel()
    files = written_files(tmp_path)
    assert 0 < len(sink.rows()) < 20_000
    again = started(df, tmp_path, Total(), sink, restore="latest")
    assert again.wait(PATIENCE_S) == "finished"
    assert written_files(tmp_path) == files
    check_each_once(sink.rows(), range(20_000))


def test_a_job_can_be_cancelled_while_its_dataframe_is_being_written(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    spark.udf.register("endless", lambda n: time.sleep(3600), "long")
    df = spark.range(0, 4, 1, 1).selectExpr("id as k", "endless(id) as n")
    job = started(df, tmp_path, Total(), sink)
    running = spark.sparkContext.statusTracker()
    await_that(lambda: bool(running.getActiveJobsIds()), job, "the Spark job that writes")
    job.cancel()
    assert job.status == "cancelled"
    assert not log_of(tmp_path).is_sealed


def test_a_dataframe_that_spark_cannot_compute_ends_the_job(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    df = spark.range(10).selectExpr("id as k", "cast(raise_error('no such number') as long) as n")
    job = started(df, tmp_path, Total(), sink)
    with pytest.raises(SourceError, match=r"'numbers'.*no such number"):
        job.wait(PATIENCE_S)
    assert job.status == "failed"


def test_every_type_arrives_as_it_is(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    df = spark.sql(
        """select id, cast(id as tinyint) as small, id / 4.0D as part, cast(id as decimal(10, 2))
        as exact, id > 1 as is_more, concat('n', id) as name, cast('x' as binary) as raw,
        date'2024-02-29' as day, timestamp'2024-02-29 12:00:00.5Z' as at,
        timestamp_ntz'2024-02-29 12:00:00' as local_at, array(id, null) as list,
        map('a', id) as by_name, named_struct('x', id, 'y', array('z')) as pair,
        cast(null as string) as nothing from range(3)"""
    )
    env = ms.Environment(spark=spark, parallelism=1, snapshots=ms.Snapshots(tmp_path))
    env.from_dataframe(df, uid="typed").sink(sink, uid="out")
    assert env.start("types").wait(PATIENCE_S) == "finished"
    at = datetime(2024, 2, 29, 12, 0, 0, 500_000, tzinfo=timezone.utc)
    local_at = datetime(2024, 2, 29, 12)
    day = date(2024, 2, 29)

    def nested(n: int) -> tuple[Any, ...]:
        return [n, None], {"a": n}, (n, ["z"])

    assert sorted(sink.rows()) == [
        (n, n, n / 4, Decimal(n), n > 1, f"n{n}", b"x", day, at, local_at, *nested(n), None)
        for n in range(3)
    ]


# ---------------------------------------------------------------- streaming


class FilesOfNumbers:
    """A directory of JSON files that grows, and the streaming DataFrame over it."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        reader = spark.readStream.schema("k long, n long").option("maxFilesPerTrigger", 4)
        self.df = reader.json(str(directory))

    def add(self, numbers: range) -> None:
        text = "".join(f'{{"k": {n % 7}, "n": {n}}}\n' for n in numbers)
        name = f"{numbers.start:08d}.json"
        (self._directory / f".{name}").write_text(text)
        (self._directory / f".{name}").rename(self._directory / name)


@pytest.fixture
def files(spark: Any, tmp_path: Path) -> FilesOfNumbers:
    return FilesOfNumbers(spark, tmp_path / "files")


def test_a_stream_of_files_goes_through_a_kill_and_a_stopped_query(
    spark: Any, files: FilesOfNumbers, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    for start in range(0, 1_000, 100):
        files.add(range(start, start + 100))
    job = started(files.df, tmp_path / "job", Total(), sink, every="300ms")
    await_that(lambda: len(sink.rows()) > 0, job, "a committed row")

    os.kill(job.workers()[0][1], signal.SIGKILL)
    for start in range(1_000, 2_000, 100):
        files.add(range(start, start + 100))
    await_that(lambda: len(sink.rows()) >= 1_100, job, "what came after the kill")
    assert len(job.attempts()) > 1

    (query,) = spark.streams.active
    query.stop()
    for start in range(2_000, 3_000, 100):
        files.add(range(start, start + 100))
    await_that(lambda: len(sink.rows()) >= 3_000, job, "what came after the query was stopped")
    assert [q.runId for q in spark.streams.active] != [query.runId]
    job.cancel()
    assert spark.streams.active == []
    check_each_once(sink.rows(), range(3_000))


def test_a_stream_goes_on_in_a_restored_job(
    spark: Any, files: FilesOfNumbers, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    for start in range(0, 600, 100):
        files.add(range(start, start + 100))
    job = started(files.df, tmp_path / "job", Slow(), sink, every="200ms")
    await_that(lambda: len(sink.rows()) > 0, job, "a committed row")
    job.cancel()
    assert spark.streams.active == []
    files.add(range(600, 700))
    again = started(files.df, tmp_path / "job", Total(), sink, restore="latest", every="300ms")
    await_that(lambda: len(sink.rows()) >= 700, again, "the rest")
    again.cancel()
    check_each_once(sink.rows(), range(700))


def test_the_rate_source_is_read_without_a_gap_and_its_log_is_truncated(
    spark: Any, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 500).load()
    df = rate.selectExpr("value % 7 as k", "value as n")
    job = started(df, tmp_path, Total(), sink, every="300ms")
    await_that(lambda: log_of(tmp_path).batches()[:1] > [0], job, "a deleted batch")
    # Parts of a batch are read side by side, so the end of what is there may have gaps.
    first = set(range(2_000))
    await_that(lambda: first <= {n for _, n, _ in sink.rows()}, job, "the first rows, all of them")
    job.cancel()
    check_each_once(sink.rows(), sorted({n for _, n, _ in sink.rows()}))


def test_a_query_that_cannot_go_on_ends_the_job(
    spark: Any, files: FilesOfNumbers, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    files.add(range(10))
    bad = files.df.selectExpr("k", "cast(raise_error('no such number') as long) as n")
    job = started(bad, tmp_path / "job", Total(), sink)
    with pytest.raises(SourceError, match=r"'numbers'.*Spark query ended 4 times"):
        job.wait(PATIENCE_S)
    assert job.status == "failed"
    assert spark.streams.active == []


def test_a_uid_may_have_signs_that_no_path_has(
    spark: Any, files: FilesOfNumbers, sink: ms.connectors.Memory, tmp_path: Path
) -> None:
    files.add(range(50))
    env = ms.Environment(
        spark=spark, parallelism=1, snapshots=ms.Snapshots(tmp_path / "job", every="300ms")
    )
    env.from_dataframe(files.df, uid="orders: new/100 %").sink(sink, uid="out")
    job = env.start("odd-names")
    await_that(lambda: len(sink.rows()) >= 50, job, "the rows")
    job.cancel()
    assert sorted(n for _, n in sink.rows()) == list(range(50))


def test_a_query_waits_while_too_much_is_unread(files: FilesOfNumbers, tmp_path: Path) -> None:
    from mainstay.spark.ingest.writing import start_query

    files.add(range(10))
    ingest = ingest_of(files.df, "numbers", str(tmp_path / "job"))
    query = start_query(ingest, tasks=1, most_unread_bytes=1)
    log = log_of(tmp_path / "job")
    try:
        await_batches(log, [0])
        files.add(range(10, 20))
        assert not query.awaitTermination(2.0)
        assert log.batches() == [0]

        first = log.slot(0)
        assert first is not None
        log.set_mark(Mark(read_bytes=first.bytes_after))
        await_batches(log, [0, 1])

        # Told that the job ends, a query that waits goes on at once.
        log.set_mark(Mark(is_closing=True))
        files.add(range(20, 30))
        await_batches(log, [0, 1, 2])
    finally:
        query.stop()


def test_a_batch_that_spark_runs_again_adds_nothing(files: FilesOfNumbers, tmp_path: Path) -> None:
    from mainstay.spark.ingest.writing import start_query

    files.add(range(10))
    ingest = ingest_of(files.df, "numbers", str(tmp_path / "job"))
    log = log_of(tmp_path / "job")
    query = start_query(ingest, tasks=1)
    await_batches(log, [0])
    query.stop()
    before = log.slot(0)

    # As after a crash between the sink's commit and Spark's own note of it.
    commits = tmp_path / "job" / log.checkpoint / "commits"
    for note in [*commits.glob("0"), *commits.glob(".0.crc")]:
        note.unlink()
    files.add(range(10, 20))
    query = start_query(ingest, tasks=1)
    try:
        await_batches(log, [0, 1])
    finally:
        query.stop()
    assert log.slot(0) == before
    assert len(written_files(tmp_path / "job")) == 3
    read = [
        n
        for split in ingest.source.plan(frozenset())
        for n in ingest.source.read(split, None).poll(100).batch.column("n").to_pylist()
    ]
    assert read == list(range(20))


def await_batches(log: IngestLog, expected: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := log.batches()) != expected:
        assert time.monotonic() < deadline, f"the log has {found}, expected {expected}"
        time.sleep(0.05)
