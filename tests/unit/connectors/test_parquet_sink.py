"""The Parquet sink without Spark: its parts, its log, and what crashes leave of them."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstay as ms
import mainstay.connectors.open_part as writing
import mainstay.connectors.output_directory as claiming
import mainstay.connectors.parquet_sink as module
from mainstay.connectors import ParquetSink, SinkContext, SinkWriter, read_committed
from mainstay.connectors.part_names import attempt_of
from mainstay.connectors.part_writer import Handle
from mainstay.connectors.spark_file_log import SparkFileLog
from mainstay.errors import GraphError, OutcomeUnknownError, SinkError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import BytesLike, NotFound, Storage
from tests.sinks import prepare, recovery, write

SCHEMA = to_schema("n long, at timestamp")


def batch(*numbers: int) -> pa.RecordBatch:
    at = datetime(2024, 5, 1, tzinfo=timezone.utc)
    return rows_to_batch([(n, at) for n in numbers], SCHEMA, "a test")


def opened(sink: ParquetSink, attempt: int = 1, subtask: int = 0, job: str = "job") -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, job))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> list[bytes]:
    if numbers:
        write(writer, batch(*numbers))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def committed(path: Path) -> list[int]:
    table = read_committed(path)
    return table.column("n").to_pylist() if table.num_columns else []


def log_names(path: Path) -> list[str]:
    return sorted(os.listdir(path / "_spark_metadata"))


def part_names(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if attempt_of(name) is not None)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is a row group: it is written as soon as what was put off is done."""
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out"


# ---------------------------------------------------------------- writing


def test_rows_are_seen_once_they_are_committed_and_not_before(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    handles = prepared(writer, 1, 1, 2)
    assert committed(path) == []
    sink.commit_epoch(1, handles)
    assert committed(path) == [1, 2]


def test_all_subtasks_of_an_epoch_are_listed_in_one_batch_in_their_order(path: Path) -> None:
    sink = ParquetSink(path)
    handles = [opened(sink, subtask=n) for n in range(3)]
    sink.commit_epoch(1, [prepared(writer, 1, n)[0] for n, writer in enumerate(handles)])
    assert log_names(path) == ["0"]
    assert committed(path) == [0, 1, 2]


def test_a_batch_of_the_log_is_what_spark_writes_plus_the_epoch(path: Path) -> None:
    sink = ParquetSink(path)
    sink.commit_epoch(7, prepared(opened(sink, attempt=3, subtask=1), 7, 1))
    (name,) = part_names(path)
    assert name.startswith("part-a0003-s0001-00001-")
    status = (path / name).stat()
    version, line = (path / "_spark_metadata" / "0").read_text().split("\n")
    assert version == "v1"
    assert list(json.loads(line).items()) == [
        ("path", f"file://{path / name}"),
        ("size", status.st_size),
        ("isDir", False),
        ("modificationTime", status.st_mtime_ns // 1_000_000),
        ("blockReplication", 1),
        ("blockSize", 33554432),
        ("action", "add"),
        ("epoch", 7),
    ]


def test_a_file_ends_after_as_many_rows_as_it_may_have(path: Path) -> None:
    sink = ParquetSink(path, rows_per_file=3)
    writer = opened(sink)
    write(writer, batch(1, 2))
    write(writer, batch(3, 4, 5, 6, 7))
    (handle,) = prepared(writer, 1)
    sink.commit_epoch(1, [handle])
    assert [part.rows for part in Handle.from_bytes(handle).parts] == [3, 3, 1]
    assert [pq.read_metadata(path / name).num_rows for name in part_names(path)] == [3, 3, 1]
    assert committed(path) == [1, 2, 3, 4, 5, 6, 7]


def test_many_small_batches_become_one_row_group(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for n in range(100):
        write(writer, batch(n))
    sink.commit_epoch(1, prepared(writer, 1))
    (name,) = part_names(path)
    assert pq.read_metadata(path / name).num_row_groups == 1
    assert committed(path) == list(range(100))


@pytest.mark.usefixtures("small_groups")
def test_a_part_has_a_hidden_name_until_it_is_whole(path: Path) -> None:
    writer = opened(ParquetSink(path))
    write(writer, batch(1))
    assert [name[0] for name in part_names(path)] == ["."]
    prepare(writer, 1)
    (name,) = part_names(path)
    assert pq.read_table(path / name).column("n").to_pylist() == [1]


def test_contents_and_name_of_a_part_are_on_disk_when_its_handle_is_given(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    writer = opened(ParquetSink(path))
    flushed.clear()
    prepared(writer, 1, 1)
    (name,) = part_names(path)
    assert flushed == [(path / name).stat().st_ino, path.stat().st_ino]


@pytest.mark.usefixtures("small_groups")
def test_a_writer_that_is_closed_takes_its_unfinished_part_with_it(path: Path) -> None:
    writer = opened(ParquetSink(path))
    write(writer, batch(1))
    assert len(part_names(path)) == 1
    writer.close()
    assert part_names(path) == []


@pytest.mark.usefixtures("small_groups")
def test_a_writer_that_is_closed_while_it_writes_leaves_nothing_either(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(ParquetSink(path))
    right = os.write

    def close_meanwhile(descriptor: int, data: Any) -> int:
        writer.close()
        assert len(part_names(path)) == 1, "the file under the writer's hands is left to it"
        return right(descriptor, data)

    monkeypatch.setattr(os, "write", close_meanwhile)
    write(writer, batch(1))
    assert part_names(path) == []


@pytest.mark.usefixtures("small_groups")
def test_what_was_put_off_and_has_not_begun_when_the_writer_is_closed_is_not_done(
    path: Path,
) -> None:
    writer = opened(ParquetSink(path))
    put_off = writer.write(batch(1))
    writer.close()
    assert put_off is not None
    put_off()
    assert part_names(path) == []


def test_nothing_touches_the_disk_before_what_was_put_off_is_done(path: Path) -> None:
    sink = ParquetSink(path, rows_per_file=2)
    writer = opened(sink)
    before = sorted(os.listdir(path))
    finishing = writer.write(batch(1, 2, 3))
    handle = writer.prepare(1)
    assert sorted(os.listdir(path)) == before
    assert callable(finishing)
    assert callable(handle)
    finishing()
    data = handle()
    assert data is not None
    sink.commit_epoch(1, [data])
    assert committed(path) == [1, 2, 3]


def test_rows_taken_after_the_handle_was_asked_for_are_not_in_it(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    writer.write(batch(1))
    handle = writer.prepare(1)
    writer.write(batch(2))
    later = writer.prepare(2)
    assert callable(handle)
    assert callable(later)
    first, second = handle(), later()
    assert first is not None
    assert second is not None
    sink.commit_epoch(1, [first])
    assert committed(path) == [1]
    sink.commit_epoch(2, [second])
    assert committed(path) == [1, 2]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("call", ["open", "lseek", "write", "rename"])
@pytest.mark.parametrize("at", range(1, 5))
def test_what_the_disk_refuses_is_written_when_it_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: int
) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    right, calls = getattr(os, call), []

    def full(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == at and call == "write":
            right(arguments[0], arguments[1][: len(arguments[1]) // 2])
        if len(calls) == at:
            raise OSError(28, "No space left on device")
        return right(*arguments)

    monkeypatch.setattr(os, call, full)
    works = [writer.write(batch(n)) for n in (1, 2)] + [writer.prepare(1)]
    results = []
    for work in works:
        assert callable(work)
        try:
            results.append(work())
        except OSError:
            results.append(work())
    monkeypatch.undo()
    sink.commit_epoch(1, [results[-1]])
    assert committed(path) == [1, 2]
    assert len(part_names(path)) == 1


def test_a_part_that_could_not_be_flushed_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(ParquetSink(path))

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SinkError, match=r"part-.*could not be made durable.*Input/output"):
        prepared(writer, 1, 1)


def test_timestamps_are_microseconds_in_utc_and_the_compression_is_the_one_asked_for(
    path: Path,
) -> None:
    sink = ParquetSink(path, compression="snappy")
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    (name,) = part_names(path)
    file = pq.ParquetFile(path / name)
    assert str(file.schema.column(1).logical_type) == (
        "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds, "
        "is_from_converted_type=false, force_set_converted_type=false)"
    )
    assert file.metadata.row_group(0).column(0).compression == "SNAPPY"


def test_an_epoch_without_rows_prepares_nothing_and_writes_no_batch(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    assert writer.prepare(1) is None
    sink.commit_epoch(1, [])
    assert log_names(path) == []
    sink.commit_epoch(2, prepared(writer, 2, 5))
    assert log_names(path) == ["0"]


# ---------------------------------------------------------------- the log


def test_every_tenth_batch_lists_everything_so_far(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for epoch in range(1, 26):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    names = {f"{n}.compact" if n in (9, 19) else f"{n}" for n in range(25)}
    assert set(log_names(path)) == names
    for number in (9, 19):
        lines = (path / "_spark_metadata" / f"{number}.compact").read_text().split("\n")
        assert [json.loads(line)["epoch"] for line in lines[1:]] == list(range(1, number + 2))
    assert committed(path) == list(range(1, 26))


def test_batches_that_compactions_replaced_are_deleted_in_the_end(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for epoch in range(1, 131):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    numbers = sorted(int(name.removesuffix(".compact")) for name in log_names(path))
    assert numbers == list(range(29, 130))
    assert committed(path) == list(range(1, 131))


@pytest.mark.parametrize("epochs", [1, 9, 10, 11])
def test_committing_an_epoch_again_does_nothing(path: Path, epochs: int) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    handles = {epoch: prepared(writer, epoch, epoch) for epoch in range(1, epochs + 1)}
    for epoch in handles:
        sink.commit_epoch(epoch, handles[epoch])
    before = log_names(path)
    for epoch in handles:
        pickle.loads(pickle.dumps(sink)).commit_epoch(epoch, handles[epoch])
    assert log_names(path) == before
    assert committed(path) == list(range(1, epochs + 1))


def test_a_job_that_begins_anew_in_the_directory_adds_to_it(path: Path) -> None:
    for _ in range(2):
        sink = ParquetSink(path)
        sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    assert committed(path) == [1, 1]


def test_a_handle_is_committed_where_it_was_written_even_if_the_sink_has_moved(
    path: Path, tmp_path: Path
) -> None:
    handles = prepared(opened(ParquetSink(path)), 1, 1)
    ParquetSink(tmp_path / "elsewhere").commit_epoch(1, handles)
    assert committed(path) == [1]


def test_a_part_that_is_missing_is_refused_before_it_is_listed(path: Path) -> None:
    sink = ParquetSink(path)
    handles = prepared(opened(sink), 1, 1)
    (name,) = part_names(path)
    (path / name).unlink()
    with pytest.raises(SinkError, match=rf"{name}.*epoch 1.*is not there.*same directory"):
        sink.commit_epoch(1, handles)
    assert log_names(path) == []


def test_a_directory_that_has_gone_as_a_whole_is_waited_for(path: Path, tmp_path: Path) -> None:
    sink = ParquetSink(path)
    handles = prepared(opened(sink), 1, 1)
    path.rename(tmp_path / "unmounted")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"out.*mount it again"):
            sink.commit_epoch(1, handles)
        assert not (path / "_spark_metadata").exists()
        path.mkdir(exist_ok=True)  # what is left of a mount point
    path.rmdir()
    (tmp_path / "unmounted").rename(path)
    sink.commit_epoch(1, handles)
    assert committed(path) == [1]


def test_a_gap_in_the_log_is_an_error_for_writers_and_readers(path: Path) -> None:
    sink = ParquetSink(path)
    writer = opened(sink)
    for epoch in range(1, 4):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    (path / "_spark_metadata" / "1").unlink()
    with pytest.raises(SinkError, match=r"\[0, 2\], with a gap"):
        sink.commit_epoch(4, prepared(writer, 4, 4))
    with pytest.raises(SourceError, match=r"\[0, 2\], with a gap"):
        read_committed(path)


def test_a_log_of_another_version_is_refused(path: Path) -> None:
    sink = ParquetSink(path)
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    (path / "_spark_metadata" / "0").write_text("v2\n{}")
    with pytest.raises(SourceError, match=r"_spark_metadata/0.*b'v2'"):
        read_committed(path)


def test_a_handle_of_a_later_version_is_refused(path: Path) -> None:
    sink = ParquetSink(path)
    (handle,) = prepared(opened(sink), 1, 1)
    later = json.dumps({**json.loads(handle), "version": 2}).encode()
    with pytest.raises(SinkError, match=r"version 2.*version 1"):
        sink.commit_epoch(1, [later])


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


# ---------------------------------------------------------------- in a job


class Telling(ParquetSink):
    """Says when it has committed an epoch."""

    committed = threading.Event()

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        super().commit_epoch(epoch, handles)
        self.committed.set()


def test_a_job_whose_workers_die_commits_every_row_once_and_leaves_nothing_else(
    path: Path, tmp_path: Path
) -> None:
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="20ms"),
        restart=ms.Restart(backoff="1ms"),
    )
    numbers = ms.connectors.Sequence(end=3000, splits=3, rows_per_second=3000)
    env.source(numbers, uid="numbers").key_by("id").sink(Telling(path), uid="out")
    job = env.start("numbers")
    for worker in (0, 1):
        Telling.committed.clear()
        assert Telling.committed.wait(30)
        job.crash_worker(worker)
    assert job.wait(30) == "finished"
    assert sorted(read_committed(path).column("id").to_pylist()) == list(range(3000))
    listed = {Path(split.id).name for split in ms.connectors.Files(path).plan(frozenset())}
    assert set(part_names(path)) == listed
    assert len({attempt_of(name) for name in listed}) > 1, "no attempt but one committed anything"
