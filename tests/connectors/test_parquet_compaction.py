"""Small files of a Parquet sink merged by Spark's log: nothing lost or doubled, whatever dies."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstay.connectors import Files, ParquetSink, SinkContext, SinkWriter, read_committed
from mainstay.connectors.files import spark_log_compaction as compacting
from mainstay.connectors.files.part_names import is_merged
from mainstay.connectors.files.spark_log import SparkFileLog
from mainstay.errors import GraphError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import PATIENCE_S, Ids
from tests.edges import Crashing, start
from tests.sinks import prepare, recovery, write

SCHEMA = to_schema("n long, name string")
BEFORE_A_MERGE = 8
"""After so many commits the next one is followed by a merge: the tenth batch replaces files."""


def batch(*numbers: int) -> pa.RecordBatch:
    return rows_to_batch([(n, f"name {n}") for n in numbers], SCHEMA, "a test")


def opened(sink: ParquetSink, attempt: int = 1) -> SinkWriter:
    return sink.open(SinkContext("out", 0, attempt, "job"))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> list[bytes]:
    write(writer, batch(*numbers))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def merging(path: Path, epochs: int, **more: Any) -> tuple[ParquetSink, SinkWriter]:
    sink = ParquetSink(path, compact="1MiB", **more)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, epochs + 1):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    return sink, writer


def committed(path: Path) -> list[int]:
    return sorted(read_committed(path).column("n").to_pylist())


def log_of(path: Path) -> SparkFileLog:
    return SparkFileLog(open_storage(str(path)), SourceError)


def listed(path: Path) -> list[str]:
    return [os.path.relpath(file.path, path) for file in log_of(path).files()]


def files_in(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_small_files_become_one_in_the_tenth_batch(path: Path) -> None:
    sink, writer = merging(path, BEFORE_A_MERGE)
    assert len(listed(path)) == BEFORE_A_MERGE
    sink.commit_epoch(9, prepared(writer, 9, 9))
    (name,) = listed(path)
    assert is_merged(name)
    assert sorted(os.listdir(path / "_spark_metadata"))[-1] == "9.compact"
    assert read_committed(path).column("n").to_pylist() == list(range(1, 10))
    assert pq.read_table(path / name).column("n").to_pylist() == list(range(1, 10))


def test_merged_files_are_merged_again_and_rows_keep_their_order(path: Path) -> None:
    merging(path, 65)
    assert read_committed(path).column("n").to_pylist() == list(range(1, 66))
    assert len(listed(path)) < 16


def test_files_are_merged_within_their_directory_and_their_columns(path: Path) -> None:
    sink = ParquetSink(path, compact="1MiB", partition_by="name")
    sink.recover(recovery(1))
    for epoch in range(1, 60):
        ddl = "n long, name string" if epoch <= 30 else "n long, name string, more string"
        row = (epoch, "ab"[epoch % 2], "x")[: 2 if epoch <= 30 else 3]
        writer = opened(sink)
        write(writer, rows_to_batch([row], to_schema(ddl), "a test"))
        handle = prepare(writer, epoch)
        assert handle is not None
        sink.commit_epoch(epoch, [handle])
    assert {os.path.dirname(name) for name in listed(path)} == {"name=a", "name=b"}
    assert len(listed(path)) < 20
    rows = read_committed(path).to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(1, 60))
    assert all(row["name"] == "ab"[row["n"] % 2] for row in rows)
    assert all(row["more"] == (None if row["n"] <= 30 else "x") for row in rows)


def test_large_files_are_left_alone(path: Path) -> None:
    sink = ParquetSink(path, compact=10)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, 20):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert len(listed(path)) == 19


def test_an_epoch_whose_files_were_merged_is_not_committed_again(path: Path) -> None:
    sink, writer = merging(path, BEFORE_A_MERGE)
    handles = prepared(writer, 9, 9)
    for _ in range(2):
        sink.commit_epoch(9, handles)
        assert committed(path) == list(range(1, 10))
    again = ParquetSink(path, compact="1MiB")
    again.commit_epoch(9, handles)
    again.recover(recovery(2))
    assert committed(path) == list(range(1, 10))


def _die_after(right: Callable[..., Any]) -> Callable[..., Any]:
    def die(*args: Any) -> Any:
        right(*args)
        raise KeyboardInterrupt

    return die


@pytest.mark.parametrize("step", ["merged", "write_durably", "_written", "_note"])
def test_a_driver_that_dies_before_the_log_replaces_loses_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink, writer = merging(path, BEFORE_A_MERGE)
    handles = prepared(writer, 9, 9)
    with monkeypatch.context() as patched:
        patched.setattr(compacting, step, _die_after(getattr(compacting, step)))
        with pytest.raises(KeyboardInterrupt):
            sink.commit_epoch(9, handles)
    assert committed(path) == list(range(1, 10))
    _go_on(path, handles)


def test_a_driver_that_dies_once_the_log_has_replaced_loses_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, writer = merging(path, BEFORE_A_MERGE)
    handles = prepared(writer, 9, 9)
    with monkeypatch.context() as patched:
        patched.setattr(SparkFileLog, "replace", _die_after(SparkFileLog.replace))
        with pytest.raises(KeyboardInterrupt):
            sink.commit_epoch(9, handles)
    old = files_in(path) - set(listed(path))
    assert len(old) == 9
    assert committed(path) == list(range(1, 10))
    _go_on(path, handles)
    assert old <= files_in(path), "a reader may still have the old listing"


def _go_on(path: Path, handles: list[bytes]) -> None:
    """What the next attempt does, up to a merge of its own; then nothing is left over."""
    again = ParquetSink(path, compact="1MiB")
    again.commit_epoch(9, handles)
    again.recover(recovery(2))
    assert committed(path) == list(range(1, 10))
    assert files_in(path) == set(listed(path)) | _kept(path)
    writer = opened(again, attempt=2)
    for epoch in range(10, 40):
        again.commit_epoch(epoch, prepared(writer, epoch, epoch))
        assert committed(path) == list(range(1, epoch + 1))
    assert len(listed(path)) < 12
    assert files_in(path) == set(listed(path)) | _kept(path)


def _kept(path: Path) -> set[str]:
    return {os.path.relpath(file, path) for file in compacting.replaced_files(str(path))}


def test_a_driver_that_lives_on_after_its_successor_began_replaces_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, writer = merging(path, BEFORE_A_MERGE)
    right = compacting._note

    def take_over(*args: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr("mainstay.connectors.files.parquet_sink._driving", _NoLock())
            ParquetSink(path, compact="1MiB").recover(recovery(2))
        return right(*args)

    monkeypatch.setattr(compacting, "_note", take_over)
    old.commit_epoch(9, prepared(writer, 9, 9))
    assert committed(path) == list(range(1, 10))
    assert len(listed(path)) == 9


@pytest.mark.parametrize("compact", ["1MiB", None])
def test_a_successor_that_takes_over_between_reading_and_writing_wins_the_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch, compact: str | None
) -> None:
    old, writer = merging(path, BEFORE_A_MERGE)
    old.recover(recovery(1))
    right = compacting.fence_of

    def take_over_after_looking(directory: str) -> str | None:
        found = right(directory)
        monkeypatch.setattr(compacting, "fence_of", right)
        with monkeypatch.context() as patched:
            patched.setattr("mainstay.connectors.files.parquet_sink._driving", _NoLock())
            ParquetSink(path, compact=compact).recover(recovery(2))
        return found

    monkeypatch.setattr(compacting, "fence_of", take_over_after_looking)
    handles = prepared(writer, 9, 9)
    for epoch in range(9, 19):
        old.commit_epoch(epoch, handles if epoch == 9 else prepared(writer, epoch, epoch))
    assert compacting.fence_of is right
    assert committed(path) == list(range(1, 19))


class _NoLock:
    """In the place of the lock of one process, where two are meant."""

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def test_files_that_were_replaced_stay_for_an_hour_and_then_go(path: Path) -> None:
    sink, writer = merging(path, 19)
    first, second = sorted((path / "_mainstay" / "replaced").iterdir(), key=os.path.getmtime)
    kept, gone = (set(json.loads(note.read_text())["paths"]) for note in (second, first))
    assert kept | gone <= files_in(path)
    note = json.loads(first.read_text())
    first.write_text(json.dumps({**note, "at": time.time() - compacting.REPLACED_LIVE_S}))
    sink.commit_epoch(20, prepared(writer, 20, 20))
    assert not first.exists()
    assert not gone & files_in(path)
    assert kept <= files_in(path)
    assert committed(path) == list(range(1, 21))


def test_a_note_of_files_that_are_listed_after_all_removes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, writer = merging(path, BEFORE_A_MERGE)
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    monkeypatch.setattr(SparkFileLog, "replace", lambda *_: False)
    sink.commit_epoch(9, prepared(writer, 9, 9))
    assert committed(path) == list(range(1, 10))
    assert files_in(path) == set(listed(path))
    assert os.listdir(path / "_mainstay" / "replaced") == []


def test_a_reader_whose_files_are_gone_looks_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    sink, writer = merging(path, BEFORE_A_MERGE)
    right, looked = os.path.isfile, []

    def merge_before_the_first_is_read(place: str) -> bool:
        if not looked and place.endswith(".parquet"):
            looked.append(place)
            for epoch in range(9, 11):
                sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
        return right(place)

    monkeypatch.setattr("os.path.isfile", merge_before_the_first_is_read)
    assert committed(path) == list(range(1, 11))
    assert looked


def test_a_listed_file_that_is_gone_is_an_error_that_names_it(path: Path) -> None:
    merging(path, 3)
    lost = listed(path)[1]
    (path / lost).unlink()
    with pytest.raises(SourceError, match=rf"{lost}.*is not there.*Put it back"):
        committed(path)


def test_a_source_that_watches_refuses_merged_files(path: Path) -> None:
    merging(path, 9)
    with pytest.raises(SourceError, match=r"merged.*without compact="):
        Files(path, schema=SCHEMA, watch=True).plan(frozenset())
    assert Files(path, schema=SCHEMA).plan(frozenset())


@pytest.mark.parametrize("compact", [0, "0B", -1])
def test_a_size_of_nothing_is_refused(path: Path, compact: Any) -> None:
    with pytest.raises(GraphError, match="compact"):
        ParquetSink(path, compact=compact)


# ---------------------------------------------------------------- in a job

STEPS = (
    "mainstay.connectors.files.spark_log_compaction:write_durably",
    "mainstay.connectors.files.spark_log_compaction:_note",
    "mainstay.connectors.files.spark_log:SparkFileLog.replace",
)


def ids(path: Path) -> list[int]:
    table = read_committed(path) if (path / "_spark_metadata").exists() else pa.table({})
    return sorted(table.column("id").to_pylist()) if table.num_columns else []


@pytest.mark.xdist_group("files")
@pytest.mark.parametrize("within", STEPS)
def test_a_job_that_crashes_while_it_merges_loses_and_doubles_nothing(
    path: Path, tmp_path: Path, within: str
) -> None:
    sink = Crashing(
        ParquetSink(path, compact="1MiB"),
        "during_commit",
        tmp_path / "crashed",
        within=within,
        observe=lambda: ids(path),
    )
    job = start(
        lambda env: env.source(Ids(3_000, 1_000.0), uid="ids").sink(sink, uid="out"),
        tmp_path,
        every_s=0.05,
    )
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert ids(path) == list(range(3_000))
    early = sink.observed
    assert len(early) == len(set(early)) < 3_000
    assert any(is_merged(os.path.basename(name)) for name in listed(path))
    assert files_in(path) == set(listed(path)) | _kept(path)
