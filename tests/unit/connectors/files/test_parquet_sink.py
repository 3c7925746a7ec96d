"""The Parquet sink: what is written and listed, and in which directories."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mainstay as ms
import mainstay.connectors.files.open_part as writing
from mainstay.connectors import ParquetSink, Rows, read_committed
from mainstay.connectors.files.part_names import attempt_of
from mainstay.connectors.files.part_writer import Handle
from mainstay.errors import GraphError, SinkError, SourceError
from mainstay.schema import to_schema
from tests.sinks import prepare, write
from tests.unit.connectors.files.parquet_sinks import (
    batch,
    committed,
    log_names,
    opened,
    part_names,
    prepared,
)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is a row group: it is written as soon as what was put off is done."""
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1)


@pytest.mark.parametrize(
    ("schema", "alike"),
    [
        ("mf long, n long, Mf long", "'mf' and 'Mf'"),
        ("k string, s struct<a: long, A: long>", "'a' and 'A'"),
        ("k string, s array<struct<a: long, A: long>>", "'a' and 'A'"),
        ("k string, s map<string, struct<a: long, A: long>>", "'a' and 'A'"),
    ],
)
def test_columns_that_differ_only_in_case_are_refused_when_the_job_is_built(
    path: Path, schema: str, alike: str
) -> None:
    stream = ms.Environment(spark="embedded").source(Rows(schema, []), uid="in")
    with pytest.raises(GraphError, match=f"'out'.*{alike} differ only in case.* Rename one"):
        stream.sink(ParquetSink(path), uid="out")


def test_a_name_may_come_again_in_another_struct(path: Path) -> None:
    ParquetSink(path).check_schema(to_schema("a long, s struct<A: long, t: struct<S: long>>"))


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
