"""The file sink: what is seen when, whatever dies; its formats, partitions and merged files."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as dataset
import pytest

from mainstay.connectors import (
    Files,
    ParquetSink,
    SinkContext,
    SinkRecovery,
    SinkWriter,
    read_committed,
)
from mainstay.connectors import committed_files as reading
from mainstay.connectors import file_compaction as compacting
from mainstay.connectors import part_writer as writing
from mainstay.connectors.file_listing import FOLDER, WHOLE_EVERY, FileListing, has_listing
from mainstay.connectors.file_sink import FileSink
from mainstay.connectors.hive_partitions import escaped
from mainstay.errors import GraphError, SinkError, SourceError
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, to_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import PATIENCE_S, Ids, await_until
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start, when_more_is
from tests.sinks import prepare, recovery, write

SCHEMA = "n long, name string"
FORMATS = ("parquet", "csv", "json")


def batch(*numbers: int, schema: str = SCHEMA) -> pa.RecordBatch:
    return rows_to_batch([(n, f"name {n}") for n in numbers], to_schema(schema), "a test")


def opened(sink: FileSink | ParquetSink, attempt: int = 1, subtask: int = 0) -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, "job"))


def prepared(writer: SinkWriter, epoch: int, *numbers: int) -> list[bytes]:
    if numbers:
        write(writer, batch(*numbers))
    handle = prepare(writer, epoch)
    return [] if handle is None else [handle]


def shown(path: Path) -> list[str]:
    """What a program sees that passes over names with a dot or an underscore."""
    return sorted(str(file.relative_to(path)) for file in _visible(path))


def _visible(path: Path) -> list[Path]:
    files = [file for file in path.rglob("*") if file.is_file()]
    return [f for f in files if not any(p[0] in "._" for p in f.relative_to(path).parts)]


def seen(path: Path) -> list[int]:
    """The numbers in the CSV files that a plain program sees."""
    lines = [line for file in _visible(path) for line in file.read_text().splitlines()[1:]]
    return sorted(int(line.split(",")[0]) for line in lines)


def committed(path: Path) -> list[int]:
    return sorted(read_committed(path, SCHEMA).column("n").to_pylist())


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out"


# ---------------------------------------------------------------- two phases


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = [*prepared(opened(sink), 1, 1, 2), *prepared(opened(sink, subtask=1), 1, 3)]
    assert shown(path) == []
    sink.commit_epoch(1, handles)
    assert len(shown(path)) == 2
    assert seen(path) == committed(path) == [1, 2, 3]


def test_committing_again_changes_nothing_even_if_a_reader_took_the_files(path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1, 2)
    sink.commit_epoch(1, handles)
    for file in _visible(path):
        file.rename(path.parent / file.name)
    for epoch in (1, 2):
        pickle.loads(pickle.dumps(sink)).commit_epoch(epoch, handles)
    assert shown(path) == []


def test_an_epoch_that_was_listed_and_not_shown_is_whole_for_readers_of_the_listing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1, 2)
    with monkeypatch.context() as patched:
        patched.setattr("mainstay.connectors.file_sink.show", lambda *_: None)
        sink.commit_epoch(1, handles)
    assert shown(path) == []
    assert committed(path) == [1, 2]
    sink.recover(recovery(2))
    assert seen(path) == committed(path) == [1, 2]


def test_a_job_of_the_same_name_that_begins_anew_adds_to_the_directory(path: Path) -> None:
    sink = FileSink(path, format="csv")
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(sink))
        sink.commit_epoch(1, prepared(opened(copy), 1, 1))
    assert seen(path) == committed(path) == [1, 1]


def test_parts_of_earlier_attempts_that_no_epoch_knows_are_removed(path: Path) -> None:
    sink = FileSink(path, format="csv")
    sink.commit_epoch(1, prepared(opened(sink), 1, 1))
    prepared(opened(sink), 2, 2)
    kept = prepared(opened(sink, attempt=2), 2, 3)
    (path / "part-of-mine.csv").write_text("n,name\n9,x\n")
    assert len(os.listdir(path / "_mainstay" / "parts")) == 2
    sink.recover(recovery(2))
    sink.commit_epoch(2, kept)
    assert os.listdir(path / "_mainstay" / "parts") == []
    assert committed(path) == [1, 3]
    assert seen(path) == [1, 3, 9]


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_nobody_cleans_up_in_the_directory_of_another_job(
    path: Path, make: Callable[..., FileSink | ParquetSink]
) -> None:
    sink = make(path)
    handles = prepared(opened(sink), 1, 1)
    make(path).recover(SinkRecovery("out", "another job", 7, ()))
    sink.commit_epoch(1, handles)
    assert committed(path) == [1]


def test_a_part_that_is_missing_is_refused_before_it_is_listed(path: Path) -> None:
    sink = FileSink(path)
    handles = prepared(opened(sink), 1, 1)
    (part,) = (path / "_mainstay" / "parts").iterdir()
    part.unlink()
    with pytest.raises(SinkError, match=r"part-a0001.*epoch 1.*is not there.*same directory"):
        sink.commit_epoch(1, handles)
    with pytest.raises(SourceError, match="neither"):
        committed(path)


def test_a_directory_that_has_gone_is_waited_for(path: Path, tmp_path: Path) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1)
    path.rename(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError, match="mount it again"):
        sink.commit_epoch(1, handles)
    (tmp_path / "unmounted").rename(path)
    sink.commit_epoch(1, handles)
    assert seen(path) == [1]


def test_many_epochs_are_read_back_by_a_listing_that_stays_short(path: Path) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 131):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert committed(path) == list(range(1, 131))
    assert len(os.listdir(path / "_mainstay" / "files")) <= 111


def test_a_damaged_listing_is_an_error_that_says_what_is_missing(path: Path) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 4):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    (path / "_mainstay" / "files" / "0000000001").unlink()
    with pytest.raises(SourceError, match="batch 1 is missing"):
        committed(path)


# ---------------------------------------------------------------- formats

ALL_TYPES = (
    "flag boolean, small short, big long, ratio float, exact double, price decimal(10,2), "
    "name string, day date, at timestamp, wall timestamp_ntz"
)
NESTED = "tags array<string>, inner struct<a:int,b:timestamp>"
AT = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=timezone.utc)
ROW = (
    *(True, 2, 4, 0.5, 0.25, Decimal("12.34"), 'é "q",\n\\', date(1969, 7, 20)),
    *(AT, AT.replace(tzinfo=None)),
)


@pytest.mark.parametrize("compression", ["default", "gzip"])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_is_what_files_and_read_committed_read(
    path: Path, format: str, compression: str
) -> None:
    ddl = ALL_TYPES if format == "csv" else f"{ALL_TYPES}, {NESTED}"
    row = ROW if format == "csv" else (*ROW, ["x", None], (5, AT))
    rows = [row, (None,) * len(row), (*row[:6], "", *row[7:])]
    how = None if compression == "default" else compression
    sink = FileSink(path, format=format, compression=how)
    writer = opened(sink)
    write(writer, rows_to_batch(rows, to_schema(ddl), "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    (name,) = shown(path)
    packed = ".gz" if compression == "gzip" and format != "parquet" else ""
    assert name.endswith(f".{format}{packed}")
    table = read_committed(path, ddl)
    (found,) = [list(map(tuple, _rows(piece))) for piece in table.to_batches()]
    assert found == rows
    source = Files(path, schema=ddl)
    (split,) = source.plan(frozenset())
    polled = source.read(split, None).poll(10)
    assert polled.batch is not None
    assert [tuple(row) for row in _rows(polled.batch)] == rows


def _rows(piece: pa.RecordBatch) -> list[Any]:
    return batch_to_rows(piece, row_class(piece.schema))


def test_json_spells_what_json_has_no_type_for(path: Path) -> None:
    ddl = "raw binary, ratio double, counts map<int,date>, price decimal(4,2), none string"
    row = (b"\x00\xff", float("nan"), {1: date(2024, 5, 1)}, Decimal("1.50"), None)
    sink = FileSink(path, format="json")
    writer = opened(sink)
    write(writer, rows_to_batch([row], to_schema(ddl), "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    (file,) = _visible(path)
    assert json.loads(file.read_text()) == {
        "raw": "AP8=",
        "ratio": "NaN",
        "counts": {"1": "2024-05-01"},
        "price": "1.50",
    }


def test_csv_refuses_what_it_has_no_spelling_for(path: Path) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    write(writer, rows_to_batch([([1],)], to_schema("many array<int>"), "a test"))
    with pytest.raises(SinkError, match=r"'many'.*(?i:array<int>).*csv.*map\(\)"):
        prepare(writer, 1)


# ---------------------------------------------------------------- rolling


def test_a_file_ends_with_its_rows_its_bytes_its_age_and_its_epoch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(sink: FileSink, *sizes: int) -> int:
        writer = opened(sink)
        for size in sizes:
            write(writer, batch(*range(size)))
        before = len(shown(sink_path))
        sink.commit_epoch(1, prepared(writer, 1))
        return len(shown(sink_path)) - before

    sink_path = path
    assert files(FileSink(path), 5, 5) == 1
    assert files(FileSink(path, roll_rows=4), 5, 5) == 3
    assert files(FileSink(path, roll_bytes=1), 5, 5) == 2
    now = iter(float(n) for n in range(100))
    monkeypatch.setattr("mainstay.connectors.part_writer.time.monotonic", lambda: next(now))
    assert files(FileSink(path, roll_every="2s"), 1, 1, 1, 1) == 2


# ---------------------------------------------------------------- partitions

VALUES = ["plain", "a b", "a/b", "a=b", "50%", "é", "x:y?z*", "'\"", "", None, "[1]^{}\\#"]


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_rows_are_found_in_the_directories_of_their_values(
    path: Path, make: Callable[..., FileSink | ParquetSink]
) -> None:
    sink = make(path, partition_by=["kind", "day"])
    days = [date(2024, 5, 1), date(2024, 5, 2), None]
    rows = [(n, kind, days[n % 3]) for n, kind in enumerate(VALUES * 3)]
    writer = opened(sink)
    write(writer, rows_to_batch(rows, to_schema("n int, kind string, day date"), "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    expected = Counter((n, kind or None, day) for n, kind, day in rows)
    table = read_committed(path)
    assert Counter(tuples(table)) == expected
    folders = {os.path.dirname(name) for name in shown(path) if name.endswith(".parquet")}
    assert f"kind={escaped('x:y?z*')}/day=2024-05-01" in folders
    assert any(folder.startswith("kind=__HIVE_DEFAULT_PARTITION__/") for folder in folders)
    hive = dataset.dataset(
        [str(path / n) for n in shown(path)],
        partitioning=dataset.partitioning(
            pa.schema([("kind", pa.string()), ("day", pa.date32())]), flavor="hive"
        ),
        partition_base_dir=str(path),
    ).to_table()
    assert Counter(tuples(hive)) == expected
    assert "kind" not in (dataset.dataset(_visible(path)[0]).schema.names)


def test_a_committed_table_has_the_types_of_the_schema_it_is_read_with(path: Path) -> None:
    sink = FileSink(path, format="csv", partition_by="code")
    writer = opened(sink)
    schema = to_schema("n long, code string")
    write(writer, rows_to_batch([(1, "007"), (2, "7")], schema, "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    table = read_committed(path, "code string, n long")
    assert sorted(tuples(table)) == [("007", 1), ("7", 2)]


def test_parts_of_many_directories_are_kept_within_bounds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MAX_OPEN_PARTS", 3)
    monkeypatch.setattr(writing, "MAX_GATHERED_BYTES", 100)
    sink = FileSink(path, partition_by="k")
    writer = opened(sink)
    for turn in range(3):
        rows = [(turn * 10 + k, k) for k in range(10)]
        write(writer, rows_to_batch(rows, to_schema("n int, k int"), "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    table = read_committed(path)
    assert sorted(tuples(table)) == [(n, n % 10) for n in range(30)]
    assert 10 < len(shown(path)) <= 30


@pytest.mark.parametrize(
    ("schema", "row", "columns", "problem"),
    [
        ("n int", (1,), "day", r"partition_by names \['day'\].*columns \['n'\]"),
        ("n int", (1,), "n", "names all columns"),
        ("n int, x double", (1, 0.5), "x", "'x' of type (?i:double).*string"),
    ],
)
def test_columns_that_cannot_be_directories_are_refused(
    path: Path, schema: str, row: tuple[Any, ...], columns: str, problem: str
) -> None:
    writer = opened(FileSink(path, partition_by=columns))
    with pytest.raises(SinkError, match=problem):
        writer.write(rows_to_batch([row], to_schema(schema), "a test"))


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_value_that_is_no_file_name_is_refused_at_once(
    path: Path, make: type[FileSink] | type[ParquetSink]
) -> None:
    writer = opened(make(path, partition_by="name"))
    rows = rows_to_batch([(1, "ä" * 150)], to_schema(SCHEMA), "a test")
    with pytest.raises(SinkError, match=r"'name'.*too long.*bytes, and 255"):
        write(writer, rows)


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_zero_byte_in_the_name_of_a_directory_is_escaped_as_hive_does(
    path: Path, make: type[FileSink] | type[ParquetSink]
) -> None:
    sink = make(path, partition_by="name")
    writer = opened(sink)
    write(writer, rows_to_batch([(1, "a\x00b")], to_schema(SCHEMA), "a test"))
    sink.commit_epoch(1, prepared(writer, 1))
    assert [os.path.dirname(name) for name in shown(path)] == ["name=a%00b"]
    assert tuples(read_committed(path, SCHEMA)) == [(1, "a\x00b")]


def test_rows_that_cannot_be_spelled_are_refused_at_once(path: Path) -> None:
    writer = opened(FileSink(path, format="json"))
    write(writer, pa.record_batch({"text": pa.array([b"\xff"]).view(pa.string())}))
    late = writer.prepare(1)
    assert callable(late)
    with pytest.raises(SinkError, match="rows cannot be written to"):
        late()


# ---------------------------------------------------------------- merging


def merging(path: Path, format: str, epochs: int, attempt: int = 1, **more: Any) -> FileSink:
    """A directory with some epochs of one row, by a sink that merges small files."""
    sink = FileSink(path, format=format, compact="1MiB", **more)
    sink.recover(recovery(attempt))
    writer = opened(sink, attempt)
    for epoch in range(1, epochs + 1):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    return sink


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("format", FORMATS)
def test_small_files_become_one(path: Path, format: str, compression: str | None) -> None:
    merging(path, format, 23, compression=compression)
    assert committed(path) == list(range(1, 24))
    assert len(shown(path)) < compacting.MIN_FILES
    assert read_committed(path, SCHEMA).column("n").to_pylist() == list(range(1, 24))


def test_files_are_merged_within_their_directory_and_their_columns(path: Path) -> None:
    sink = FileSink(path, format="csv", compact="1MiB", partition_by="name")
    sink.recover(recovery(1))
    for epoch in range(1, 21):
        ddl = "n long, name string" if epoch <= 10 else "n long, name string, more string"
        row = (epoch, "ab"[epoch % 2], "x")[: 2 if epoch <= 10 else 3]
        writer = opened(sink, subtask=epoch)
        write(writer, rows_to_batch([row], to_schema(ddl), "a test"))
        sink.commit_epoch(epoch, prepared(writer, epoch))
    assert seen(path) == list(range(1, 21))
    headers = {file.read_text().splitlines()[0] for file in _visible(path)}
    assert headers == {'"n"', '"n","more"'}
    assert len(shown(path)) < 20


def test_large_files_are_left_alone(path: Path) -> None:
    sink = FileSink(path, format="csv", compact=10)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, 20):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert len(shown(path)) == 19


@pytest.mark.parametrize(("format", "compression"), [("parquet", None), ("json", "gzip")])
def test_a_committed_file_that_was_damaged_ends_the_attempt_that_would_merge_it(
    path: Path, format: str, compression: str | None
) -> None:
    sink = merging(path, format, compacting.MIN_FILES - 1, compression=compression)
    damaged = _visible(path)[0]
    damaged.write_bytes(b"?" * damaged.stat().st_size)
    handles = prepared(opened(sink), 8, 8)
    with pytest.raises(SinkError, match=rf"{damaged.name}.*cannot be read to be merged.*compact="):
        sink.commit_epoch(8, handles)


@pytest.mark.parametrize("step", ["_merge", "_replace", "_hide", "show"])
def test_a_driver_that_dies_while_it_merges_loses_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    right = getattr(compacting, step)

    def die_after(*args: Any) -> Any:
        right(*args)
        raise KeyboardInterrupt

    handles = prepared(opened(sink), 8, 8)
    with monkeypatch.context() as patched:
        patched.setattr(compacting, step, die_after)
        with pytest.raises(KeyboardInterrupt):
            sink.commit_epoch(8, handles)
    assert committed(path) == list(range(1, 9))
    assert max(Counter(seen(path)).values(), default=1) <= (2 if step == "_replace" else 1)
    again = FileSink(path, format="csv", compact="1MiB")
    again.commit_epoch(8, handles)
    again.recover(recovery(2))
    assert seen(path) == committed(path) == list(range(1, 9))
    again.commit_epoch(9, prepared(opened(again, attempt=2), 9, 9))
    assert seen(path) == committed(path) == list(range(1, 10))
    assert os.listdir(path / "_mainstay" / "parts") == []


def test_a_driver_that_lives_on_after_its_successor_began_replaces_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = merging(path, "csv", compacting.MIN_FILES - 1)
    right, merged = compacting.merged, []

    def merge_while_another_takes_over(*args: Any) -> Any:
        result = right(*args)
        if not merged:
            merged.append(True)
            with monkeypatch.context() as patched:
                patched.setattr("mainstay.connectors.file_sink._driving", _NoLock())
                FileSink(path, format="csv", compact="1MiB").recover(recovery(2))
        return result

    handles = prepared(opened(old), 8, 8)
    monkeypatch.setattr(compacting, "merged", merge_while_another_takes_over)
    old.commit_epoch(8, handles)
    assert merged
    assert seen(path) == committed(path) == list(range(1, 9))
    assert len(shown(path)) == 8


class _NoLock:
    """In the place of the lock of one process, where two are meant."""

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def merge_while_files_are_read(
    sink: FileSink, monkeypatch: pytest.MonkeyPatch, times: int, epochs: int = 16
) -> list[int]:
    """Commit, and so merge, before each of so many files is read; the number of files read."""
    right, writer, count = reading.read_batches, opened(sink), [0]

    def merge_and_read(*args: Any) -> Any:
        first = 8 + count[0] * epochs
        for epoch in range(first, first + epochs) if count[0] < times else ():
            sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
        count[0] += 1
        return right(*args)

    monkeypatch.setattr(reading, "read_batches", merge_and_read)
    return count


def test_a_reader_under_way_finds_the_files_of_its_listing_after_many_merges(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    merge_while_files_are_read(sink, monkeypatch, times=7)
    assert committed(path) == list(range(1, 8))
    assert committed(path) == list(range(1, 8 + 7 * 16))


def test_a_reader_looks_again_as_often_as_merges_outrun_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    merge_while_files_are_read(sink, monkeypatch, times=10)
    assert committed(path) == list(range(1, 8 + 10 * 16))


def test_a_reader_that_looks_again_reads_only_what_it_has_not_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "REPLACED_LIVE_S", 0.0)
    sink = FileSink(path, format="csv", compact=400)
    sink.recover(recovery(1))
    writer = opened(sink)
    for epoch in range(1, 8):
        rows = range(50) if epoch <= 3 else (epoch,)
        sink.commit_epoch(epoch, prepared(writer, epoch, *rows))
    right, read = reading.read_batches, []

    def outrun_at_the_small_ones(place: str, *args: Any) -> Any:
        read.append(os.path.basename(place))
        if len(read) == 4:
            for epoch in range(8, 24):
                sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
        return right(place, *args)

    monkeypatch.setattr(reading, "read_batches", outrun_at_the_small_ones)
    assert committed(path) == sorted([*range(50)] * 3 + [*range(4, 24)])
    assert len(read) > 4
    assert len(read) == len(set(read))


def test_replaced_files_are_removed_by_a_merge_when_nobody_may_be_reading_them(path: Path) -> None:
    sink = merging(path, "csv", 2 * compacting.MIN_FILES)
    replaced = path / "_mainstay" / "replaced"
    long_ago = time.time() - compacting.REPLACED_LIVE_S
    old, *young = sorted(replaced.iterdir())
    os.utime(old, (long_ago, long_ago))
    writer = opened(sink, subtask=1)
    for epoch in range(17, 17 + compacting.MIN_FILES):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert not old.exists()
    assert all(file.exists() for file in young)


def test_a_file_counts_as_replaced_from_the_moment_it_was_not_from_when_it_was_written(
    path: Path,
) -> None:
    sink = merging(path, "csv", compacting.MIN_FILES - 1)
    for file in _visible(path):
        os.utime(file, (0, 0))
    writer = opened(sink)
    for epoch in range(8, 8 + 2 * compacting.MIN_FILES):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    assert len(os.listdir(path / "_mainstay" / "replaced")) > 2 * compacting.MIN_FILES


def test_a_listed_file_that_is_gone_is_an_error_also_while_the_listing_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(path, format="csv")
    writer = opened(sink)
    for epoch in range(1, 8):
        sink.commit_epoch(epoch, prepared(writer, epoch, epoch))
    merge_while_files_are_read(sink, monkeypatch, times=100, epochs=1)
    lost = _visible(path)[0]
    lost.unlink()
    with pytest.raises(SourceError, match=rf"{lost.name}.*is not there.*Put it back"):
        committed(path)


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("moves", ["show", "hide"])
def test_a_file_that_moves_while_it_is_looked_for_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch, moves: str, looks: int
) -> None:
    sink = FileSink(path, format="csv")
    handles = prepared(opened(sink), 1, 1)
    with monkeypatch.context() as patched:
        if moves == "show":
            patched.setattr("mainstay.connectors.file_sink.show", lambda *_: None)
        sink.commit_epoch(1, handles)
    (file,) = FileListing(open_storage(str(path)), SourceError).read().files
    right, looked = os.path.isfile, []

    def move_after_looking(place: str) -> bool:
        found = right(place)
        looked.append(place)
        if len(looked) == looks:
            if moves == "show":
                compacting.show(str(path), [file.path])
            else:
                compacting._hide(str(path), [file])
        return found

    monkeypatch.setattr("os.path.isfile", move_after_looking)
    assert compacting.place_of(str(path), file.path) is not None


def test_a_listing_that_is_forgotten_while_it_is_read_is_read_again_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainstay.connectors.file_listing.RETAINED_BATCHES", 0)
    storage = _Forgetful()
    listing = FileListing(storage, SourceError)
    _grow(listing)
    storage.forgets = 10
    assert listing.read().latest == 11 * WHOLE_EVERY
    assert storage.forgets == 0


class _Forgetful(MemoryStorage):
    """A listing in it moves on so far, so many times, that what is read has just gone."""

    forgets = 0

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if self.forgets and path.startswith(FOLDER):
            left, self.forgets = self.forgets - 1, 0
            _grow(FileListing(self, SourceError))
            self.forgets = left
        return super().read(path, start, length)


def _grow(listing: FileListing) -> None:
    """Change it until a whole batch has just been written, and those before it are forgotten."""
    changes = WHOLE_EVERY if listing.read().latest >= 0 else WHOLE_EVERY + 1
    for number in range(changes):
        listing.change(lambda before, number=number: replace(before, fence=f"{number}"))


def test_a_source_that_watches_refuses_merged_files(path: Path) -> None:
    merging(path, "csv", compacting.MIN_FILES)
    source = Files(path, schema=SCHEMA, watch=True)
    with pytest.raises(SourceError, match=r"merged.*without compact="):
        source.plan(frozenset())
    assert Files(path, schema=SCHEMA).plan(frozenset())


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"path": "s3://bucket/out"}, "local or mounted disk"),
        ({"format": "orc"}, "format='orc'.*parquet, csv, json"),
        ({"format": "csv", "compression": "zstd"}, "compression='zstd'.*none, gzip"),
        ({"roll_rows": 0}, "roll_rows=0"),
        ({"roll_bytes": "many"}, "roll_bytes='many'"),
        ({"roll_bytes": 0}, "roll_bytes=0"),
        ({"roll_every": "soon"}, "roll_every='soon'"),
        ({"compact": 0}, "compact=0"),
        ({"partition_by": ["a", "a"]}, "each once"),
        ({"partition_by": [1]}, "names of columns"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        FileSink(**{"path": "out", **arguments})


def test_a_directory_with_a_log_of_sparks_is_refused(path: Path) -> None:
    opened(ParquetSink(path))
    with pytest.raises(GraphError, match=r"log of Spark's.*ParquetSink"):
        FileSink(path)


def test_a_directory_belongs_to_one_sink(path: Path) -> None:
    opened(FileSink(path))
    with pytest.raises(SinkError, match="belongs to"):
        FileSink(path).open(SinkContext("out", 0, 1, "other"))


# ---------------------------------------------------------------- in a job

STEPS = (
    "mainstay.connectors.file_sink:FileListing.change",
    "mainstay.connectors.file_sink:show",
)


def csv_ids(path: Path) -> list[int]:
    texts = [file.read_text() for file in _visible(path)]
    return sorted(int(line.split(",")[0]) for text in texts for line in text.splitlines()[1:])


@pytest.mark.xdist_group("files")
@pytest.mark.parametrize(
    ("point", "within"),
    [(p, None) for p in CRASH_POINTS if p != "during_commit"]
    + [("during_commit", step) for step in STEPS],
)
@pytest.mark.parametrize("compact", [None, "1MiB"])
def test_a_crash_at_every_edge_of_a_commit_loses_and_doubles_nothing(
    path: Path, tmp_path: Path, point: str, within: str | None, compact: str | None
) -> None:
    sink = Crashing(
        FileSink(path, format="csv", compact=compact),
        point,
        tmp_path / "crashed",
        within=within,
        observe=lambda: csv_ids(path),
    )
    job = start(
        lambda env: env.source(Ids(1_500, 1_200.0), uid="ids").sink(sink, uid="out"),
        tmp_path,
        every_s=0.1,
    )
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    assert csv_ids(path) == list(range(1_500))
    assert sorted(read_committed(path, "id long, k long").column("id").to_pylist()) == list(
        range(1_500)
    )
    assert os.listdir(path / "_mainstay" / "parts") == []
    early = sink.observed
    assert len(early) == len(set(early)) < 1_500


@pytest.mark.xdist_group("files")
def test_an_outage_of_the_disk_is_waited_for_and_seen(path: Path, tmp_path: Path) -> None:
    sink = FileSink(path, format="csv")
    job = start(
        lambda env: env.source(Ids(3_000, 1_000.0), uid="ids").sink(sink, uid="out"),
        tmp_path,
        every_s=0.1,
    )
    await_until(lambda: path.exists() and bool(csv_ids(path)), "something is committed")
    path.rename(tmp_path / "unmounted")
    await_until(lambda: bool(job.problems()), "the problem is seen")
    assert any("out" in str(problem) for problem in job.problems())
    if path.exists():
        await_until(
            lambda: not any(path.rglob("*.csv")), "nothing is written beside the mount", 5.0
        )
        path.rmdir()
    (tmp_path / "unmounted").rename(path)
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert csv_ids(path) == list(range(3_000))


def committed_count(path: Path) -> int:
    """How many rows whoever goes by the listing sees: exact while files are merged."""
    return read_committed(path, "id long, k long").num_rows if has_listing(str(path)) else 0


def kill_in_a_run(path: Path, folder: Path, kills: int) -> None:
    sink = FileSink(path, format="csv", compact="1MiB", partition_by="k")
    job = start(
        lambda env: env.source(Ids(3_000 * kills, 1_500.0), uid="ids").sink(sink, uid="out"),
        folder,
        drive="processes",
        max_failures=kills + 1,
    )
    kill_workers(job, kills, moment=when_more_is(lambda: committed_count(path), "committed"))
    assert job.wait(2 * PATIENCE_S * kills) == "finished"
    assert csv_ids(path) == list(range(3_000 * kills))


@pytest.mark.xdist_group("files")
def test_a_worker_that_is_killed_loses_and_doubles_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=1)


@pytest.mark.soak
@pytest.mark.xdist_group("files")
def test_twenty_kills_lose_and_double_nothing(path: Path, tmp_path: Path) -> None:
    kill_in_a_run(path, tmp_path, kills=20)
