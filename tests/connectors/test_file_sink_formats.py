"""The file sink: files of every format, when a new one begins, and partitions."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
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
    read_committed,
)
from mainstay.connectors.files import part_writer as writing
from mainstay.connectors.files.hive_partitions import escaped
from mainstay.connectors.files.sink import FileSink
from mainstay.errors import SinkError
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, to_schema
from tests.connectors.file_sinks import FORMATS, SCHEMA, _visible, batch, opened, prepared, shown
from tests.sinks import prepare, write


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


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
    monkeypatch.setattr("mainstay.connectors.files.part_writer.time.monotonic", lambda: next(now))
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
