"""The Parquet sink after crashes, against rivals, and in directories of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstay.connectors.files.open_part as writing
import mainstay.connectors.files.output_directory as claiming
import mainstay.connectors.files.parquet_sink as module
from mainstay.connectors import ParquetSink, read_committed
from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.spark_log import SparkFileLog
from mainstay.errors import GraphError, OutcomeUnknownError, SinkError, SourceError
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import BytesLike, NotFound, Storage
from tests.sinks import recovery, write
from tests.unit.connectors.files.parquet_sinks import (
    batch,
    committed,
    log_names,
    opened,
    part_names,
    prepared,
)

# ---------------------------------------------------------------- crashes and rivals


class Killed(Exception):  # noqa: N818 - an end rather than an error
    """The driver died here."""


class Interposed:
    """A storage that does something of the test's around ``create`` and ``read``."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.before_create: Callable[[str], None] = lambda path: None
        self.after_create: Callable[[str], None] = lambda path: None
        self.before_read: Callable[[str], None] = lambda path: None

    def create(self, path: str, data: BytesLike) -> bool:
        self.before_create(path)
        created = self.inner.create(path, data)
        self.after_create(path)
        return created

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.before_read(path)
        return self.inner.read(path, start, length)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def interpose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def interpose(**hooks: Callable[[str], None]) -> None:
        def open_interposed(path: str) -> Interposed:
            storage = Interposed(open_storage(path))
            for name, hook in hooks.items():
                setattr(storage, name, hook)
            return storage

        monkeypatch.setattr(module, "open_storage", open_interposed)
        monkeypatch.setattr(claiming, "open_storage", open_interposed)

    return interpose


def die(path: str) -> None:
    raise Killed(path)


@pytest.mark.parametrize("hook", ["before_create", "after_create", "before_read"])
@pytest.mark.parametrize("epochs", [1, 9, 10, 11])
def test_a_driver_that_dies_at_any_step_of_a_commit_leaves_it_to_be_done_once(
    path: Path, interpose: Callable[..., None], hook: str, epochs: int
) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for epoch in range(1, epochs + 1):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    last = prepared(writer, epochs + 1, epochs + 1)
    interpose(**{hook: die})
    with pytest.raises(Killed):
        sink.commit_epoch(epochs + 1, last)
    interpose()
    survivor = ParquetSink(path)
    survivor.commit_epoch(epochs + 1, last)
    survivor.recover(recovery(2))
    assert committed(path) == list(range(1, epochs + 2))
    assert len(log_names(path)) == epochs + 1


def test_a_commit_of_unknown_outcome_is_done_once_when_it_is_tried_again(
    path: Path, interpose: Callable[..., None]
) -> None:
    sink = ParquetSink(path)
    handles = prepared(opened(sink), 1, 1)

    def unknown(path: str) -> None:
        raise OutcomeUnknownError(path)

    interpose(after_create=unknown)
    with pytest.raises(OutcomeUnknownError):
        sink.commit_epoch(1, handles)
    interpose()
    sink.commit_epoch(1, handles)
    assert log_names(path) == ["0"]


def test_of_two_drivers_that_commit_the_same_epoch_one_does(
    path: Path, interpose: Callable[..., None]
) -> None:
    sink = ParquetSink(path)
    handles = prepared(opened(sink), 1, 1)
    rivals = [ParquetSink(path)]

    def rival_first(_: str) -> None:
        if rivals:
            rivals.pop().commit_epoch(1, handles)

    interpose(before_create=rival_first)
    sink.commit_epoch(1, handles)
    assert not rivals
    assert log_names(path) == ["0"]
    assert committed(path) == [1]


def test_a_driver_that_finds_its_number_taken_by_another_epoch_takes_the_next(
    path: Path, interpose: Callable[..., None]
) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    first, second = prepared(writer, 1, 1), prepared(writer, 2, 2)
    rivals = [ParquetSink(path)]

    def rival_first(_: str) -> None:
        if rivals:
            rivals.pop().commit_epoch(1, first)

    interpose(before_create=rival_first)
    sink.commit_epoch(2, second)
    assert log_names(path) == ["0", "1"]
    assert committed(path) == [1, 2]


def test_a_reader_overtaken_by_a_deletion_looks_again(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for epoch in range(1, 10):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    storage = Interposed(open_storage(str(path)))
    handles = prepared(writer, 10, 10)

    def overtake(_: str) -> None:
        storage.before_read = lambda path: None
        sink.commit_epoch(10, handles)
        raise NotFound("deleted between listing and reading")

    storage.before_read = overtake
    assert len(SparkFileLog(storage, SourceError).files()) == 10


# ---------------------------------------------------------------- cleaning up


def test_parts_of_earlier_attempts_that_nobody_committed_are_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ParquetSink(path)
    first, second = opened(sink, attempt=1), opened(sink, attempt=2)
    sink.commit_epoch(1, prepared(first, 1, 1))
    prepared(first, 2, 2)
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1)
    write(first, batch(3))
    kept = prepared(second, 2, 4)
    assert len(part_names(path)) == 4
    sink.recover(recovery(2))
    assert [attempt_of(name) for name in part_names(path)] == [1, 2]
    sink.commit_epoch(2, kept)
    assert committed(path) == [1, 4]


def test_files_that_are_not_parts_are_left_alone(path: Path) -> None:
    sink = ParquetSink(path)
    prepared(opened(sink), 1, 1)
    for name in ("notes.txt", "part-of-something.parquet", "part-a0001.parquet"):
        (path / name).write_text("mine")
    sink.recover(recovery(2))
    assert part_names(path) == []
    assert {"notes.txt", "part-of-something.parquet", "part-a0001.parquet"} <= set(os.listdir(path))


def test_there_is_nothing_to_clean_up_before_the_first_writer(path: Path) -> None:
    ParquetSink(path).recover(recovery(1))
    assert not path.exists()


# ---------------------------------------------------------------- directories


def test_a_relative_path_means_the_directory_where_the_sink_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = ParquetSink("./out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    assert committed(tmp_path / "out") == [1]


def test_names_that_uris_escape_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "a dir%20 #é"
    sink = ParquetSink(path.as_uri())
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    sink.recover(recovery(2))
    assert committed(path) == [1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"path": "s3://bucket/out"}, "s3://bucket/out.*local or mounted disk.*file:///"),
        ({"path": "file://host/out"}, "local or mounted disk"),
        ({"path": ""}, "local or mounted disk"),
        ({"path": "out", "rows_per_file": 0}, "rows_per_file=0"),
        ({"path": "out", "rows_per_file": True}, "rows_per_file=True"),
        ({"path": "out", "compression": "rar"}, "'rar'.*zstd, snappy"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        ParquetSink(**arguments)


def test_a_file_in_the_place_of_the_directory_is_refused(path: Path) -> None:
    path.write_text("a file")
    with pytest.raises(GraphError, match=r"out' is a file\. Name a directory"):
        ParquetSink(path)


def test_parquet_files_of_somebody_else_are_refused_and_stay_visible(path: Path) -> None:
    sink = ParquetSink(path)
    path.mkdir()
    pq.write_table(pa.table({"n": [1]}), path / "theirs.parquet")
    with pytest.raises(GraphError, match=r"theirs\.parquet.*another directory"):
        ParquetSink(path)
    with pytest.raises(SinkError, match=r"theirs\.parquet.*another directory"):
        opened(sink)
    assert os.listdir(path) == ["theirs.parquet"]


def test_a_log_of_somebody_else_is_refused(path: Path) -> None:
    (path / "_spark_metadata").mkdir(parents=True)
    (path / "_spark_metadata" / "0").write_text("v1")
    with pytest.raises(GraphError, match=r"_spark_metadata/0.*another directory"):
        ParquetSink(path)


def test_a_directory_belongs_to_one_sink_of_one_job(path: Path) -> None:
    sink = ParquetSink(path)
    prepared(opened(sink, subtask=0), 1, 1)
    prepared(opened(sink, subtask=1), 1, 2)
    with pytest.raises(SinkError, match=r'belongs to \["job", "out"\] and not to \["other", "out"'):
        opened(sink, job="other")
    (path / "_mainstay" / "owner").write_text('["other", "out"]\n')
    opened(sink, job="other")


def test_a_subtask_that_finds_parts_looks_whose_they_are_before_it_refuses(
    path: Path, interpose: Callable[..., None]
) -> None:
    sink, reads = ParquetSink(path), []

    def another_subtask_is_first(name: str) -> None:
        reads.append(name)
        if len(reads) == 1:
            interpose()
            with pytest.raises(NotFound):
                open_storage(str(path)).read(name)
            prepared(opened(sink, subtask=1), 1, 1)
            raise NotFound(name)

    interpose(before_read=another_subtask_is_first)
    opened(sink, subtask=0)
    assert len(reads) >= 2
    assert len(part_names(path)) == 1


def test_a_directory_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "file" / "out")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SinkError, match=r"'out'.*file/out.*another directory"):
        opened(sink)


def test_reading_a_directory_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="neither '_spark_metadata' nor"):
        read_committed(tmp_path)
