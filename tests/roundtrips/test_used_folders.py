"""Folders that have files already: of others, of another job, of the job before its change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import Files, FileSink, ParquetSink, read_committed
from mainstay.errors import SinkError, SourceError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed, read
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.roundtrips.test_files import (
    FORMATS,
    files_in,
    is_refused,
    seen_by_others,
    write_as_others,
)

MAKERS: dict[str, Any] = {
    "parquet": FileSink,
    "json": lambda path: FileSink(path, format="json"),
    "csv": lambda path: FileSink(path, format="csv"),
    "log": ParquetSink,
}


def listed(format: str) -> Table:
    """Every listed value that the format has."""
    format = "parquet" if format == "log" else format
    return kinds.wide([table for table in kinds.catalogue() if not is_refused(table, format)])


def rows_in(path: Path, schema: pa.Schema) -> list[Any]:
    return [row for file in files_in(path) for row in seen_by_others(file, schema)]


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_others_stay_and_ours_come_to_them(format: str, tmp_path: Path) -> None:
    table, out = listed(format), tmp_path / "out"
    out.mkdir()
    theirs = out / f"theirs.{format}"
    write_as_others(theirs, kinds.wide([kinds.one_column(pa.int64(), 1, 2)]), 0)
    before = theirs.read_bytes()
    committed(MAKERS[format](out), table.batch)
    assert theirs.read_bytes() == before
    expected = rows_of(table.rows, table.schema)
    assert arrow_rows(read_committed(out, table.schema), table.schema) == expected
    theirs.unlink()
    assert rows_in(out, table.schema) == expected


@pytest.mark.parametrize("format", MAKERS)
def test_a_folder_of_another_job_is_refused_and_left_as_it_was(format: str, tmp_path: Path) -> None:
    table, out = listed(format), tmp_path / "out"
    committed(MAKERS[format](out), table.batch)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(SinkError, match=r"out' belongs to .*Choose another directory"):
        committed(MAKERS[format](out), kinds.one_column(pa.int64(), 1).batch)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("format", MAKERS)
def test_a_job_started_again_adds_to_what_it_has_written(format: str, tmp_path: Path) -> None:
    table, out = listed(format), tmp_path / "out"
    for attempt in (1, 2):
        committed(MAKERS[format](out), table.batch, lineage="job", attempt=attempt)
    expected = 2 * rows_of(table.rows, table.schema)
    assert arrow_rows(read_committed(out, table.schema), table.schema) == expected
    assert rows_in(out, table.schema) == expected


OLD = Table(pa.schema([("n", pa.int32()), ("s", pa.string())]), ((1, None), ("a", "")))
CHANGED: dict[str, Table] = {
    "a column more": Table(
        pa.schema([("n", pa.int32()), ("s", pa.string()), ("m", pa.int64())]), ((3,), ("c",), (9,))
    ),
    "a column less": Table(pa.schema([("n", pa.int32())]), ((3,),)),
    "another order": Table(pa.schema([("s", pa.string()), ("n", pa.int32())]), (("c",), (3,))),
    "a wider type": Table(pa.schema([("n", pa.int64()), ("s", pa.string())]), ((1 << 40,), ("c",))),
    "another type": Table(pa.schema([("n", pa.string()), ("s", pa.string())]), (("x",), ("c",))),
}


def wanted_of(table: Table, schema: pa.Schema) -> list[Any]:
    """The rows as another schema has them: null where there was no such column."""
    given = [dict(zip(table.schema.names, row, strict=True)) for row in table.rows]
    is_text = pa.types.is_string(schema.field("n").type)
    if is_text:
        given = [{**row, "n": None if row["n"] is None else str(row["n"])} for row in given]
    return rows_of([[row.get(name) for name in schema.names] for row in given], schema)


REFUSED = {("a column more", kind) for kind in ("parquet", "csv", "log")}
REFUSED |= {("another type", "json")}
"""A column that is not in a file is null in JSON alone, whose numbers are no texts."""


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("format", MAKERS)
def test_files_of_an_older_schema_are_read_as_the_new_one_or_refused_by_name(
    format: str, change: str, tmp_path: Path
) -> None:
    new, out = CHANGED[change], tmp_path / "out"
    committed(MAKERS[format](out), OLD.batch, lineage="job")
    committed(MAKERS[format](out), new.batch, lineage="job", attempt=2)
    expected = [*wanted_of(OLD, new.schema), *rows_of(new.rows, new.schema)]
    source = Files(out, schema=new.schema, format="parquet" if format == "log" else format)
    for reading in (lambda: read_committed(out, new.schema), lambda: read(source)):
        if (change, format) in REFUSED:
            with pytest.raises(SourceError, match=rf"{out}/.*(no column|does not fit)"):
                reading()
        else:
            assert sorted(arrow_rows(reading(), new.schema), key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_files_of_one_column_in_two_types_need_a_schema(make: Any, tmp_path: Path) -> None:
    committed(make(tmp_path), OLD.batch, lineage="job")
    committed(make(tmp_path), CHANGED["another type"].batch, lineage="job", attempt=2)
    with pytest.raises(SourceError, match=rf"{tmp_path}.*have no one schema.*Give read_committed"):
        read_committed(tmp_path)


@pytest.mark.parametrize("make", [FileSink, ParquetSink])
def test_a_folder_whose_value_is_none_of_the_schema_is_refused(make: Any, tmp_path: Path) -> None:
    committed(make(tmp_path, partition_by="s"), OLD.batch)
    with pytest.raises(SourceError, match=rf"{tmp_path}.*have no one schema.*Give read_committed"):
        read_committed(tmp_path, "n int, s date")


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_committed_file_that_was_damaged_is_named(format: str, tmp_path: Path) -> None:
    committed(MAKERS[format](tmp_path), OLD.batch)
    (file,) = files_in(tmp_path)
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(SourceError, match=rf"{file}.* cannot be read"):
        read_committed(tmp_path, OLD.schema)
