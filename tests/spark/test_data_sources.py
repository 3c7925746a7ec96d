"""PySpark's data sources as sources and sinks of jobs, as they are and through crashes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import LongType, StructType, YearMonthIntervalType

import mainstay as ms
import tests.drive.ledger as ledger_module
import tests.edges as edges_module
import tests.spark.feeds as feeds_module
from mainstay.connectors import Memory, Polled, SinkContext, Source, Split, SplitReader
from mainstay.drive.embedded import EmbeddedJob
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import GraphError, RestoreError, SinkError, SourceError
from mainstay.runtime.coordinator.splits import SplitBook
from mainstay.snapshot.object_storage import open_storage
from mainstay.spark.sources import writer_sink as stream_writer_sink
from mainstay.spark.sources.ranges import Range, Reached, before_the_last, last_range, reached
from mainstay.spark.sources.source import pyspark_source
from mainstay.spark.sources.writer_handle import Handle, batches_to_commit
from mainstay.spark.sources.writer_sink import pyspark_sink
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import PATIENCE_S, Ledger, Shelf, await_attempt, await_until
from tests.edges import CRASH_POINTS, Crashing, start
from tests.spark.feeds import (
    KEYS,
    ArrowBook,
    Book,
    FailingBook,
    Feed,
    Ids,
    OldFeed,
    Queue,
    Table,
    notes,
    published,
)

COUNT = 6_000
IDS = Counter(range(COUNT))

Build = Callable[[ms.Environment], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the data source of a test remembers things."""
    made = tmp_path / "feed"
    made.mkdir()
    return made


def options(folder: Path, **more: Any) -> dict[str, str]:
    found = {"folder": folder, "count": COUNT, "limit": 400, **more}
    return {name: str(value) for name, value in found.items()}


def embedded(build: Build, tmp_path: Path, **options: Any) -> EmbeddedJob:
    job = start(build, tmp_path, **options)
    assert isinstance(job, EmbeddedJob)
    return job


def to_shelf(source: Any, shelf: Shelf) -> Build:
    """A job that writes down what a source gives, in keyed state and in files."""

    def build(env: ms.Environment) -> None:
        rows = env.source(source, uid="feed").key_by("k")
        rows.process(Ledger(), "k long, id long", uid="ledger").sink(shelf, uid="shelf")

    return build


def await_ids(job: EmbeddedJob | RemoteJob, ids: Callable[[], Counter[int]]) -> None:
    """A stream has no end: what ends a test is that everything has arrived."""

    def is_over() -> bool:
        return job.is_over or ids().total() >= COUNT

    await_until(is_over, "every id is committed")
    assert ids() == IDS, job.attempts()


def crash(job: EmbeddedJob, attempt: int) -> None:
    """Drop a worker of an attempt once that has completed an epoch."""

    def is_due() -> bool:
        records = job.snapshots()
        return any(r.attempt == attempt and r.status == "complete" for r in records)

    await_until(is_due, f"attempt {attempt} has completed an epoch")
    job.crash_worker(attempt % 2)


def written_down(tmp_path: Path, build: Build) -> Counter[int]:
    """The ids in the state of the last complete epoch."""
    env = ms.Environment(parallelism=2)
    build(env)
    storage = open_storage(str(tmp_path / "snapshots"))
    state = committed_state(storage, env.plan(), "ledger", "seen")
    return Counter(id for ids in state.values() for id in ids)


# ---------------------------------------------------------------- streaming sources


@pytest.mark.parametrize(
    "source",
    [
        lambda o: Feed({**o, "shuffled": "yes"}),
        lambda o: pyspark_source(Feed(o), deterministic=True),
        lambda o: pyspark_source(OldFeed(o), every="100ms"),
        lambda o: pyspark_source(Queue(o), every="50ms"),
    ],
    ids=["stream", "deterministic stream", "stream without limits", "simple stream"],
)
def test_a_stream_is_read_once_through_crashes_and_commits_what_is_durable(
    tmp_path: Path, folder: Path, source: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path / "shelf")
    given = source(options(folder))
    build = to_shelf(given, shelf)
    lost: list[Any] = []

    def check_commit(at: Path, name: str, value: Any) -> None:
        note(at, name, value)
        if name == "commits":
            kept = written_down(tmp_path, build)
            lost.extend(id for id in range(value) if kept[id] != 1)

    note = feeds_module.note
    monkeypatch.setattr(feeds_module, "note", check_commit)
    job = embedded(build, tmp_path)
    for attempt in (1, 2):
        crash(job, attempt)
    await_ids(job, shelf.ids)
    commits = await_until(
        lambda: (found := notes(folder, "commits")) and found[-1] == COUNT and found,
        "the last range is committed",
    )
    job.cancel()
    assert len(job.attempts()) >= 2
    assert lost == []
    assert commits == sorted(commits)
    assert written_down(tmp_path, build) == IDS


def test_a_stream_that_was_ended_goes_on_where_it_was(tmp_path: Path, folder: Path) -> None:
    shelf = Shelf(tmp_path / "shelf")
    job = embedded(to_shelf(Feed(options(folder)), shelf), tmp_path)
    await_until(lambda: shelf.ids(), "some rows are committed")
    job.cancel()
    again = embedded(to_shelf(Feed(options(folder)), shelf), tmp_path, restore="latest")
    await_ids(again, shelf.ids)
    again.cancel()
    assert notes(folder, "begun") == [0], "the offset to begin with is asked for once"


def test_a_source_that_is_away_is_waited_for(tmp_path: Path, folder: Path) -> None:
    shelf = Shelf(tmp_path / "shelf")
    job = embedded(to_shelf(Away(options(folder)), shelf), tmp_path)
    await_until(
        lambda: [p for p in job.problems() if "nobody answers" in p.error],
        "the job says what it waits for",
    )
    (folder / "is-back").touch()
    await_ids(job, shelf.ids)
    job.cancel()
    assert len(job.attempts()) == 1


class Away(Feed):
    """Neither offsets nor rows can be had before there is a file that says so."""

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        return AwayReader(self.options)


class AwayReader(feeds_module.FeedReader):
    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802
        if start["at"] > 1_000:
            self._ask()
        return super().latestOffset(start, limit)

    def read(self, partition: Any) -> Iterator[Any]:
        self._ask()
        return super().read(partition)

    def _ask(self) -> None:
        if not (self.folder / "is-back").exists():
            raise ConnectionError("nobody answers")


def planned_by(source: Source, seen: frozenset[str], plans: int) -> frozenset[str]:
    """What is remembered of the splits after so many plans."""
    for _ in range(plans):
        planned = [split.id for split in source.plan(seen)]
        seen = frozenset([*(seen - set(source.forget(seen))), *planned])
    return seen


def last_number(seen: frozenset[str]) -> int:
    last = last_range(seen)
    assert last is not None
    return last.number


def test_no_more_is_planned_than_a_job_can_read(folder: Path) -> None:
    feed = Feed(options(folder, count=10**9, limit=1))
    source = pyspark_source(feed, deterministic=True)
    seen = planned_by(source, frozenset(), 40)
    assert last_number(seen) == 257
    assert source.plan(seen) == []
    source.on_complete(seen, dict.fromkeys(seen))
    assert notes(folder, "commits") == [256]
    assert source.plan(seen) != []


# ---------------------------------------------------------------- ranges


def ids_of(*ranges: Range, parts: int = 2) -> frozenset[str]:
    return frozenset(each.split_id(part) for each in ranges for part in range(parts))


FIRST = Range(0, {"at": 0}, {"at": 0})
ONE = Range(1, {"at": 0}, {"at": 10})
TWO = Range(2, {"at": 10}, {"at": 30})


def test_ids_say_where_planning_goes_on_and_what_may_be_forgotten() -> None:
    assert last_range(frozenset()) is None
    assert last_range(ids_of(FIRST, ONE, TWO)) == TWO
    assert before_the_last(ids_of(FIRST, ONE, TWO)) == ids_of(FIRST, ONE)


def test_a_range_is_reached_when_it_and_all_before_it_are_read() -> None:
    seen = ids_of(ONE, TWO)
    assert reached(seen, ids_of(ONE, parts=1)) == Reached(0, {"at": 0})
    assert reached(seen, [TWO.split_id(1)]) == Reached(1, {"at": 10})
    assert reached(seen, []) == Reached(2, {"at": 30})
    assert reached(ids_of(FIRST), []) == Reached(0, {"at": 0})
    assert reached([], []) is None


def test_ids_of_another_source_are_refused() -> None:
    with pytest.raises(SourceError, match=r"a source of another kind .* another uid"):
        last_range(["orders/part-1.parquet"])
    with pytest.raises(SourceError, match="another version of Mainstay"):
        last_range(['{"format": 2}'])


# ---------------------------------------------------------------- batch sources


@pytest.mark.parametrize("given", ["tuples", "lists", "rows", "batches"])
def test_a_batch_reader_gives_its_rows_in_any_form(tmp_path: Path, given: str) -> None:
    sink = Memory()

    def build(env: ms.Environment) -> None:
        env.source(Table({"count": "300", "as": given}), uid="table").sink(sink, uid="out")

    assert start(build, tmp_path).wait(PATIENCE_S) == "finished"
    assert sorted(sink.rows()) == [(id, id % KEYS) for id in range(300)]


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_batch_is_read_once_through_a_crash(tmp_path: Path, deterministic: bool) -> None:
    shelf = Shelf(tmp_path / "shelf")
    table = Table({"count": str(COUNT), "pause_s": "0.01"})
    source = pyspark_source(table, deterministic=deterministic)
    build = to_shelf(source, shelf)
    job = embedded(build, tmp_path)
    crash(job, 1)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    assert shelf.ids() == IDS
    assert written_down(tmp_path, build) == IDS


def test_a_batch_that_is_started_again_has_the_partitions_that_are_new() -> None:
    class Growing(Table):
        def reader(self, schema: Any) -> Any:
            reader = super().reader(schema)
            reader.partitions = lambda: [Ids(n, n + 1) for n in range(int(self.options["count"]))]
            return reader

    def planned(table: Any, notes: Any) -> tuple[list[str], Any]:
        book = SplitBook(1, bounded=True, notes=notes, plan_again=True)
        ((*new,),) = book.assign(pyspark_source(table).plan(book.seen))
        return [split.id for split in new], book.notes()

    first, notes = planned(Growing({"count": "2"}), None)
    assert planned(Growing({"count": "2"}), notes)[0] == []
    second, notes = planned(Growing({"count": "5"}), notes)
    assert (len(first), len(second)) == (2, 3)
    with pytest.raises(RestoreError, match="has changed since it was read: it was Ids"):
        planned(Table({"count": "600"}), notes)


def rest_of(source: Source, split: Split, offset: Any) -> list[int]:
    reader = source.read(split, offset)
    found: list[int] = []
    while not (polled := reader.poll(10)).finished:
        assert polled.batch is not None
        found += polled.batch.column("id").to_pylist()
    return found


def test_a_reading_goes_on_in_the_middle_of_a_partition() -> None:
    source = pyspark_source(Table({"count": "600", "as": "batches"}), deterministic=True)
    split = source.plan(frozenset())[1]
    reader = source.read(split, None)
    for _ in range(2):
        offset = reader.poll(50).offset
    assert rest_of(source, split, offset) == list(range(250, 300))


def test_rows_that_are_not_the_same_again_end_the_attempt() -> None:
    source = pyspark_source(Table({"count": "600"}), deterministic=True)
    split = source.plan(frozenset())[0]
    with pytest.raises(SourceError, match=r"the first 20 are not .* Leave out deterministic=True"):
        rest_of(source, split, [20, 12345])
    with pytest.raises(SourceError, match="the first 151 are not what they were"):
        rest_of(source, split, [151, 12345])


def test_a_partition_lost_in_its_middle_ends_the_attempt_unless_it_comes_again() -> None:
    for deterministic, error in [(False, SourceError), (True, ConnectionError)]:
        source = pyspark_source(Breaking({"count": "8"}), deterministic=deterministic)
        reader = source.read(source.plan(frozenset())[0], None)
        assert reader.poll(10).batch is not None
        with pytest.raises(error, match="the line is dead"):
            reader.poll(10)


class Breaking(Table):
    def reader(self, schema: Any) -> Any:
        return BreakingReader(self.options)


class BreakingReader(feeds_module.TableReader):
    def read(self, partition: Any) -> Iterator[Any]:
        yield pa.record_batch({"id": [1], "k": [1]})
        raise ConnectionError("the line is dead")


# ---------------------------------------------------------------- mistakes of readers


def test_a_row_that_does_not_fit_is_an_error_with_the_row() -> None:
    class Crooked(Table):
        def schema(self) -> Any:
            return "id long"

    source = pyspark_source(Crooked({"count": "8"}))
    with pytest.raises(SourceError, match=r"Crooked gave a row .* has 2 values for 1 columns"):
        rest_of(source, source.plan(frozenset())[0], None)
    source = pyspark_source(Crooked({"count": "8", "as": "batches"}))
    with pytest.raises(SourceError, match=r"columns \['k', 'id'\]; its schema is 'id long'"):
        rest_of(source, source.plan(frozenset())[0], None)


def test_a_schema_that_cannot_be_had_is_refused_with_the_remedy() -> None:
    class Silent(Table):
        def schema(self) -> Any:
            return DataSource.schema(self)

    class Odd(Table):
        def schema(self) -> Any:
            return StructType().add("id", YearMonthIntervalType())

    env = ms.Environment()
    with pytest.raises(GraphError, match=r"'in'.*Silent declares no schema.*schema="):
        env.source(Silent({}), uid="in")
    with pytest.raises(
        GraphError, match=r"Odd has the schema (.|\n)* Leave out or cast the column"
    ):
        env.source(Odd({}), uid="in")
    assert pyspark_source(Silent({}), schema="a int").schema == pa.schema([("a", pa.int32())])
    declared = StructType().add("id", LongType(), nullable=False)
    assert not pyspark_source(Silent({}), schema=declared).schema.field("id").nullable


def test_a_data_source_that_cannot_be_read_or_written_is_refused() -> None:
    env = ms.Environment()
    with pytest.raises(GraphError, match=r"Book cannot be read: it has no streamReader and no"):
        env.source(Book({}), uid="in")
    rows = env.source(Table({}), uid="table")
    with pytest.raises(GraphError, match=r"'out'.*Feed has no streamWriter"):
        rows.sink(Feed({}), uid="out")
    with pytest.raises(GraphError, match="needs a source, not the class Feed"):
        env.source(Feed, uid="class")
    with pytest.raises(GraphError, match="needs an instance of a subclass"):
        pyspark_source(Memory())
    with pytest.raises(GraphError, match="needs an instance of a subclass"):
        pyspark_sink(Memory(), "id long")


def test_a_reading_that_does_not_move_on_is_an_error() -> None:
    class Stuck(Queue):
        def simpleStreamReader(self, schema: Any) -> Any:  # noqa: N802
            return StuckReader({"folder": ".", "count": "5"})

    class StuckReader(feeds_module.QueueReader):
        def read(self, start: Any) -> Any:
            rows, _ = super().read(start)
            return rows, start

    with pytest.raises(SourceError, match=r"read 5 rows from \{'at': 0\} on .* for ever"):
        pyspark_source(Stuck({})).plan(frozenset())


# ---------------------------------------------------------------- stream writers


class Halves(Source):
    """All ids in two splits; the second half of each comes when something is committed."""

    schema = ledger_module.SCHEMA

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("even", 0), Split("odd", 1)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return HalvesReader(self.folder, split.data if offset is None else offset)


class HalvesReader(SplitReader):
    def __init__(self, folder: Path, position: int) -> None:
        self.folder = folder
        self.position = position

    def poll(self, max_rows: int) -> Polled:
        schema = ledger_module.SCHEMA
        after = COUNT if notes(self.folder, "committed") else COUNT // 2
        ids = list(range(self.position, after, 2))[:max_rows]
        if not ids:
            return Polled(None, self.position, finished=self.position >= COUNT)
        self.position = ids[-1] + 2
        columns = {"id": ids, "k": [id % KEYS for id in ids]}
        return Polled(pa.record_batch(columns, schema=schema), self.position)


def to_book(folder: Path, sink: Any) -> Build:
    return lambda env: env.source(Halves(folder), uid="ids").sink(sink, uid="book")


@pytest.mark.parametrize("cls", [Book, ArrowBook, FailingBook])
def test_a_stream_writer_publishes_every_row_once(
    tmp_path: Path, folder: Path, cls: type[Book]
) -> None:
    history = str(tmp_path / "snapshots")
    book = cls({"folder": str(folder), "history": history})
    job = start(to_book(folder, book), tmp_path)
    assert job.wait(PATIENCE_S) == "finished"
    assert published(folder) == IDS
    batches = [batch for batch, _ in notes(folder, "committed")]
    assert len(batches) >= 2
    assert batches == sorted(set(batches)), "batches are committed once and in order"
    assert all(batch <= epoch for batch, epoch in notes(folder, "known"))
    assert TaskContext.get() is None


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_at_any_point_loses_and_doubles_nothing(
    tmp_path: Path, folder: Path, point: str
) -> None:
    history = str(tmp_path / "snapshots")
    sink = Crashing(
        pyspark_sink(Book({"folder": str(folder), "history": history}), ledger_module.SCHEMA),
        point,
        tmp_path / "crashed",
        visit=1 if point == "during_commit" else 2,
        within="tests.spark.feeds:publish",
    )
    job = start(to_book(folder, sink), tmp_path)
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert published(folder) == IDS
    assert all(batch <= epoch for batch, epoch in notes(folder, "known"))
    messages: dict[int, int] = {}
    for batch, count in notes(folder, "committed"):
        assert messages.setdefault(batch, count) == count, f"batch {batch} came as a part"


def from_feed_to_book(folder: Path, **more: Any) -> Build:
    def build(env: ms.Environment) -> None:
        feed = env.source(Feed(options(folder, **more)), uid="feed")
        feed.sink(Book({"folder": str(folder)}), uid="book")

    return build


def test_a_worker_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, folder: Path) -> None:
    job = start(from_feed_to_book(folder, shuffled="yes"), tmp_path, drive="processes")
    assert isinstance(job, RemoteJob)
    os.kill(await_attempt(job, 1, 2)[1], signal.SIGKILL)
    await_ids(job, lambda: published(folder))
    job.cancel()
    assert len(job.attempts()) == 2
    commits = notes(folder, "commits")
    assert commits == sorted(commits)


@pytest.mark.soak
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path, folder: Path) -> None:
    count = COUNT * 10
    build = from_feed_to_book(folder, count=count, limit=100)
    job = start(build, tmp_path, drive="processes", max_failures=100)
    assert isinstance(job, RemoteJob)
    for attempt in range(1, 21):
        os.kill(await_attempt(job, attempt, 2)[attempt % 2], signal.SIGKILL)
    await_until(lambda: published(folder).total() >= count, "all is published", 300.0)
    job.cancel()
    assert published(folder) == Counter(range(count))


def test_many_rows_of_an_epoch_are_written_in_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer_sink, "PART_BYTES", 100)
    sink = pyspark_sink(Book({"folder": str(folder)}), ledger_module.SCHEMA)
    writer = sink.open(SinkContext("book", 0, 1, "job"))
    batch = pa.record_batch({"id": list(range(5)), "k": [0] * 5}, schema=ledger_module.SCHEMA)
    assert writer.write(batch) is None
    for _ in range(2):
        work = writer.write(batch)
        if work is not None:
            work()
    finish = writer.prepare(7)
    assert callable(finish)
    handle = finish()
    assert handle is not None
    sink.commit_epoch(7, [handle])
    assert notes(folder, "committed") == [[7, 2]]
    assert published(folder) == Counter(dict.fromkeys(range(5), 3))
    writer.close()
    assert notes(folder, "aborted") == []


def test_what_was_written_and_never_prepared_is_aborted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer_sink, "PART_BYTES", 1)
    sink = pyspark_sink(Book({"folder": str(folder)}), ledger_module.SCHEMA)
    writer = sink.open(SinkContext("book", 0, 1, "job"))
    work = writer.write(pa.record_batch({"id": [1], "k": [1]}, schema=ledger_module.SCHEMA))
    assert work is not None
    work()
    writer.close()
    assert notes(folder, "aborted") == [[-1, 1]]


def test_a_message_of_another_kind_is_refused(folder: Path) -> None:
    class Chatty(Book):
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            return ChattyWriter(self.options)

    class ChattyWriter(feeds_module.BookWriter):
        def write(self, iterator: Any) -> Any:
            return f"{len(list(iterator))} rows"

    sink = pyspark_sink(Chatty({"folder": str(folder)}), ledger_module.SCHEMA)
    writer = sink.open(SinkContext("book", 0, 1, "job"))
    writer.write(pa.record_batch({"id": [1], "k": [1]}, schema=ledger_module.SCHEMA))
    finish = writer.prepare(1)
    assert callable(finish)
    with pytest.raises(SinkError, match=r"returned '1 rows' .* no WriterCommitMessage"):
        finish()


def handle(subtask: int, epoch: int, previous: int | None, attempt: int = 1) -> Handle:
    return Handle(attempt, subtask, epoch, previous, b"")


def batches(*handles: Handle) -> dict[int, list[int]]:
    found = batches_to_commit(handles)
    return {epoch: [handle.subtask for handle in group] for epoch, group in found.items()}


def test_a_batch_of_which_a_part_was_dropped_is_committed_already() -> None:
    # Subtask 0 has heard that epoch 3 is committed, subtask 1 has not.
    assert batches(handle(1, 3, 2), handle(0, 4, 3), handle(1, 4, 3)) == {4: [0, 1]}


def test_a_batch_that_a_subtask_had_no_part_in_is_whole() -> None:
    # Epoch 3 was aborted before it came to subtask 0.
    found = batches(handle(1, 3, None), handle(0, 4, None), handle(1, 4, 3))
    assert found == {3: [1], 4: [0, 1]}


def test_the_batches_of_an_earlier_attempt_come_first() -> None:
    restored = [handle(0, 3, 2), handle(0, 2, None), handle(1, 3, None)]
    found = batches(*restored, handle(0, 5, None, attempt=2), handle(1, 5, None, attempt=2))
    assert list(found.items()) == [(2, [0]), (3, [0, 1]), (5, [0, 1])]


# ---------------------------------------------------------------- third parties, and Spark


def test_a_data_source_from_the_package_index_is_read_as_it_is(tmp_path: Path) -> None:
    sources = pytest.importorskip(
        "pyspark_datasources", reason="pyspark-data-sources is not installed"
    )
    pytest.importorskip("faker", reason="faker is not installed")
    sink = Memory()

    def build(env: ms.Environment) -> None:
        fake = sources.FakeDataSource({"numRows": "40"})
        env.source(fake, uid="stream").sink(sink, uid="out")
        names = pyspark_source(fake, schema="name string, company string", batch=True)
        env.source(names, uid="batch").sink(Memory(), uid="names")

    job = start(build, tmp_path)
    await_until(lambda: len(sink.rows()) >= 80, "two ranges are committed")
    job.cancel()
    rows = sink.rows()
    assert len(rows) % 40 == 0
    assert all(isinstance(value, str) and value for row in rows for value in row)


@pytest.fixture
def by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    modules = (feeds_module, ledger_module, edges_module)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.spark
def test_from_a_data_source_to_a_data_source_on_spark_through_a_kill(
    spark: Any, by_value: None, tmp_path: Path, folder: Path
) -> None:
    env = ms.Environment(
        spark=spark,
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms"),
        restart=ms.Restart(backoff="50ms"),
    )
    from_feed_to_book(folder, shuffled="yes")(env)
    job = env.start("from-feed-to-book")
    assert isinstance(job, RemoteJob)
    try:
        os.kill(await_attempt(job, 1, 2)[1], signal.SIGKILL)
        await_ids(job, lambda: published(folder))
        commits = notes(folder, "commits")
    finally:
        job.cancel()
    assert len(job.attempts()) == 2
    assert commits == sorted(commits)
