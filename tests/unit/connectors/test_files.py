"""The files source: what it finds, what it reads, that reading again gives the same rows."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.connectors import (
    Files,
    ParquetSink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    file_absences,
)
from mainstay.errors import GraphError, SourceError
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, to_schema
from mainstay.testing import run
from tests.sinks import prepare, write

SCHEMA = "name string, n long"


def write_parquet(path: Path, rows: list[tuple[Any, ...]]) -> None:
    names, numbers = zip(*rows, strict=True) if rows else ((), ())
    table = pa.table({"name": pa.array(names, pa.string()), "n": pa.array(numbers, pa.int64())})
    pq.write_table(table, path, row_group_size=7)


def write_csv(path: Path, rows: list[tuple[Any, ...]]) -> None:
    path.write_text("name,n\n" + "".join(f"{name},{n}\n" for name, n in rows))


def write_json(path: Path, rows: list[tuple[Any, ...]]) -> None:
    path.write_text("".join(json.dumps({"name": name, "n": n}) + "\n" for name, n in rows))


WRITERS: dict[str, Callable[[Path, list[tuple[Any, ...]]], None]] = {
    "parquet": write_parquet,
    "csv": write_csv,
    "json": write_json,
}


def read_all(source: Source, *, offset: int = 0, max_rows: int = 1000) -> list[tuple[Any, ...]]:
    """Every row of every split, each split from the offset on."""
    found: list[tuple[Any, ...]] = []
    for split in source.plan(frozenset()):
        reader = source.read(split, offset or None)
        while not (polled := reader.poll(max_rows)).finished:
            assert polled.batch is not None
            assert polled.batch.schema == source.schema
            assert 1 <= polled.batch.num_rows <= max_rows
            found += map(tuple, batch_to_rows(polled.batch, row_class(source.schema)))
        reader.close()
    return found


# ---------------------------------------------------------------- replay


@pytest.mark.parametrize("format", sorted(WRITERS))
@pytest.mark.parametrize("offset", [0, 1, 6, 7, 8, 14, 49, 50])
def test_the_rows_after_an_offset_do_not_depend_on_how_they_are_polled(
    tmp_path: Path, format: str, offset: int
) -> None:
    rows = [(f"name-{n}", n) for n in range(50)]
    path = tmp_path / f"data.{format}"
    WRITERS[format](path, rows)
    for max_rows, batch_rows in [(1, 8192), (3, 5), (7, 7), (1000, 4), (1000, 8192)]:
        source = Files(str(path), schema=SCHEMA, batch_rows=batch_rows)
        assert read_all(source, offset=offset, max_rows=max_rows) == rows[offset:]


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_every_offset_that_a_reader_gives_is_one_to_go_on_from(tmp_path: Path, format: str) -> None:
    rows = [(f"name-{n}", n) for n in range(20)]
    path = tmp_path / f"data.{format}"
    WRITERS[format](path, rows)
    source = Files(str(path), schema=SCHEMA, batch_rows=6)
    (split,) = source.plan(frozenset())
    first, taken = source.read(split, None), 0
    while not (polled := first.poll(4)).finished:
        assert polled.batch is not None
        taken += polled.batch.num_rows
        assert polled.offset == taken
        assert read_all(source, offset=polled.offset) == rows[taken:]
    assert taken == 20


def test_parquet_row_groups_before_the_offset_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    write_parquet(path, [(f"name-{n}", n) for n in range(21)])
    groups = pq.ParquetFile(path).metadata
    first = groups.row_group(0).column(0)
    damaged = bytearray(path.read_bytes())
    start = first.dictionary_page_offset or first.data_page_offset
    damaged[start : start + first.total_compressed_size] = bytes(first.total_compressed_size)
    path.write_bytes(damaged)
    source = Files(str(path))
    assert read_all(source, offset=7) == [(f"name-{n}", n) for n in range(7, 21)]
    with pytest.raises(SourceError, match=r"data\.parquet"):
        read_all(source)


def test_a_file_that_changed_since_it_was_planned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    write_csv(path, [("a", 1)])
    source = Files(str(path), schema=SCHEMA)
    (split,) = source.plan(frozenset())
    write_csv(path, [("a", 1), ("b", 2)])
    with pytest.raises(SourceError, match=r"data\.csv.*must not change"):
        source.read(split, 1).poll(10)


def test_a_file_of_the_same_size_that_took_its_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    write_csv(path, [("a", 1)])
    source = Files(str(path), schema=SCHEMA)
    (split,) = source.plan(frozenset())
    before = path.stat()
    write_csv(path, [("b", 2)])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(SourceError, match=r"data\.csv.*not the one.*must not change"):
        source.read(split, None).poll(10)


def test_a_file_that_changes_while_it_is_read_is_refused_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    write_csv(path, [("a", 1), ("b", 2)])
    source = Files(str(path), schema=SCHEMA)
    (split,) = source.plan(frozenset())
    reader = source.read(split, None)
    assert reader.poll(2).batch is not None
    os.utime(path, ns=(0, 0))
    with pytest.raises(SourceError, match=r"data\.csv.*not the one"):
        reader.poll(1)


def test_a_split_of_an_earlier_version_is_read_where_the_source_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "data.csv", [("a", 1)])
    source = Files("./data.csv", schema=SCHEMA)
    size_bytes = (tmp_path / "data.csv").stat().st_size
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    reader = source.read(Split("./data.csv", {"format": "csv", "size_bytes": size_bytes}), 0)
    batch = reader.poll(10).batch
    assert batch is not None
    assert batch.to_pylist() == [{"name": "a", "n": 1}]


# ---------------------------------------------------------------- finding files


@pytest.mark.parametrize("given", ["./in", "in/data.csv", "in/*.csv", "./*/data.csv"])
def test_a_relative_path_means_the_directory_where_the_source_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for place, name in (("here", "right"), ("there", "wrong")):
        (tmp_path / place / "in").mkdir(parents=True)
        write_csv(tmp_path / place / "in" / "data.csv", [(name, 1)])
    monkeypatch.chdir(tmp_path / "here")
    source = Files(given, schema=SCHEMA)
    planned_here = source.plan(frozenset())
    monkeypatch.chdir(tmp_path / "there")
    assert source.plan(frozenset()) == planned_here
    assert read_all(pickle.loads(pickle.dumps(source))) == [("right", 1)]


def test_patterns_directories_and_files_are_found_once_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "2024" / "deep").mkdir(parents=True)
    (tmp_path / "2024" / "_temporary").mkdir()
    for name in ("2024/b.parquet", "2024/a.parquet", "2024/deep/c.parquet", "z.parquet"):
        write_parquet(tmp_path / name, [(name, 1)])
    for name in ("2024/.hidden.crc", "2024/_SUCCESS", "2024/_temporary/d.parquet"):
        (tmp_path / name).write_text("not for readers")
    source = Files([tmp_path / "2024", str(tmp_path / "*.parquet"), tmp_path / "z.parquet"])
    expected = ["2024/a.parquet", "2024/b.parquet", "2024/deep/c.parquet", "z.parquet"]
    assert [split.id for split in source.plan(frozenset())] == [
        str(tmp_path / name) for name in expected
    ]
    assert [name for name, _ in read_all(source)] == expected


def test_a_split_is_named_as_the_path_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_parquet(tmp_path / "a.parquet", [("a", 1)])
    write_parquet(tmp_path / "b.parquet", [("b", 2)])
    source = Files("./*.parquet")
    assert [split.id for split in source.plan(frozenset())] == ["./a.parquet", "./b.parquet"]
    again = Files("./*.parquet").plan(frozenset({"./a.parquet"}))
    assert [split.id for split in again] == ["./a.parquet", "./b.parquet"]


def added(source: Source) -> Any:
    """What a job says when the source is added to it: until then no file is looked at."""
    return ms.Environment().source(source, uid="in")


def test_a_directory_that_may_not_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    source = Files(tmp_path, schema=SCHEMA, watch=True)
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(SourceError, match=r"cannot be listed.*Permission denied"):
        source.plan(frozenset())


def test_no_matching_file_is_an_error_that_names_the_pattern(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"'in'.*no file matches.*orders.*Correct the path"):
        added(Files(str(tmp_path / "orders-*.parquet")))
    with pytest.raises(SourceError, match=r"no file matches.*orders"):
        Files(str(tmp_path / "orders-*.csv"), schema=SCHEMA).plan(frozenset())


def test_an_unknown_extension_is_an_error_that_offers_format(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    write_csv(path, [("a", 1)])
    with pytest.raises(SourceError, match=r"data\.txt.*'\.txt'.*format=.*\.parquet"):
        Files(str(path), schema=SCHEMA).plan(frozenset())
    assert read_all(Files(str(path), schema=SCHEMA, format="csv")) == [("a", 1)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"paths": []}, "a path or a list of paths"),
        ({"paths": [1]}, "a path or a list of paths"),
        ({"paths": "a.csv", "schema": SCHEMA, "format": "orc"}, "csv, json, parquet"),
        ({"paths": "a.csv", "schema": SCHEMA, "batch_rows": 0}, "batch_rows=0"),
        ({"paths": "a.csv", "schema": "a bogus"}, "'bogus' is not a type"),
        ({"paths": "a.csv", "schema": "a array<long>", "format": "csv"}, "'a'.*array<long>.*csv"),
        ({"paths": "a", "schema": "a map<array<int>,int>", "format": "json"}, "'a'.*map.*json"),
    ],
)
def test_wrong_arguments_are_graph_errors(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        Files(**arguments)


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_format_without_types_needs_a_schema(tmp_path: Path, format: str) -> None:
    WRITERS[format](tmp_path / f"data.{format}", [("a", 1)])
    with pytest.raises(GraphError, match=rf"data\.{format}.*{format}.*schema="):
        added(Files(str(tmp_path)))


# ---------------------------------------------------------------- watching


def names_of(source: Source, seen: frozenset[str] = frozenset()) -> list[str]:
    return [Path(split.id).name for split in source.plan(seen)]


def test_a_watched_directory_may_be_empty_or_absent_and_never_ends(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", tmp_path / "*.csv"):
        source = Files(path, schema=SCHEMA, watch=True)
        assert not source.bounded
        assert source.plan(frozenset()) == []
    assert Files(tmp_path, schema=SCHEMA).bounded


def test_a_watched_directory_without_a_file_needs_a_schema(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"watch=True.*no file yet.*schema="):
        added(Files(tmp_path, watch=True))
    write_parquet(tmp_path / "a.parquet", [("a", 1)])
    assert Files(tmp_path, watch=True).schema.names == ["name", "n"]


def test_new_files_are_taken_in_order_when_they_have_stopped_growing(tmp_path: Path) -> None:
    source = Files(tmp_path, schema=SCHEMA, watch=True)
    write_csv(tmp_path / "b.csv", [("b", 1)])
    write_csv(tmp_path / "a.csv", [("a", 1)])
    assert names_of(source) == []
    write_csv(tmp_path / "b.csv", [("b", 1), ("b", 2)])
    assert names_of(source) == ["a.csv"]
    write_csv(tmp_path / "c.csv", [("c", 1)])
    seen = frozenset({str(tmp_path / "a.csv")})
    assert names_of(source, seen) == ["b.csv"]
    assert names_of(source, seen) == ["b.csv", "c.csv"]
    assert names_of(source, seen | {str(tmp_path / "b.csv"), str(tmp_path / "c.csv")}) == []


def test_a_file_is_planned_with_the_size_at_which_it_settled(tmp_path: Path) -> None:
    source = Files(tmp_path, schema=SCHEMA, watch=True)
    write_csv(tmp_path / "a.csv", [("a", 1)])
    source.plan(frozenset())
    (split,) = source.plan(frozenset())
    write_csv(tmp_path / "a.csv", [("a", 1), ("b", 2)])
    with pytest.raises(SourceError, match=r"a\.csv.*must not change"):
        source.read(split, None).poll(10)


def test_a_watched_directory_passes_over_hidden_and_temporary_names(tmp_path: Path) -> None:
    source = Files(tmp_path, schema=SCHEMA, format="csv", watch=True)
    for name in ("_a.csv", ".b.csv", "c.csv.tmp", "d.csv.part", "e.inprogress", "f._COPYING_"):
        write_csv(tmp_path / name, [("a", 1)])
    write_csv(tmp_path / "g.csv", [("g", 1)])
    assert [names_of(source) for _ in range(3)] == [[], ["g.csv"], ["g.csv"]]


def test_a_file_that_goes_away_before_it_is_taken_is_no_error(tmp_path: Path) -> None:
    source = Files(tmp_path, schema=SCHEMA, watch=True)
    write_csv(tmp_path / "a.csv", [("a", 1)])
    assert names_of(source) == []
    (tmp_path / "a.csv").unlink()
    assert [names_of(source) for _ in range(2)] == [[], []]


def test_only_files_that_are_long_gone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Files(tmp_path, schema=SCHEMA, watch=True)
    for name in ("a.csv", "b.csv"):
        write_csv(tmp_path / name, [("a", 1)])
    gone, there = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    seen = frozenset({gone, there})
    (tmp_path / "a.csv").unlink()
    source.plan(seen)
    assert not source.forget(seen)
    monkeypatch.setattr(file_absences, "FORGET_S", 0.0)
    assert list(source.forget(seen)) == [gone]
    write_csv(tmp_path / "a.csv", [("a", 1)])
    source.plan(seen)
    assert not source.forget(seen)


def test_a_slow_listing_is_made_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Files(tmp_path, schema=SCHEMA, watch=True)
    source.plan(frozenset())
    assert source.replan_s == 1.0
    times = iter([100.0, 103.0])
    monkeypatch.setattr("mainstay.connectors.files.monotonic", lambda: next(times))
    source.plan(frozenset())
    assert source.replan_s == pytest.approx(30.0)


# ---------------------------------------------------------------- Spark's log


def sink_with_epochs(path: Path, epochs: int) -> tuple[ParquetSink, SinkWriter]:
    """A directory with as many committed epochs of one row each."""
    sink = ParquetSink(path)
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    for epoch in range(1, epochs + 1):
        commit_row(sink, writer, epoch)
    return sink, writer


def commit_row(sink: ParquetSink, writer: SinkWriter, epoch: int) -> None:
    write(writer, rows_to_batch([(f"epoch-{epoch}", epoch)], to_schema(SCHEMA), "a test"))
    handle = prepare(writer, epoch)
    assert handle is not None
    sink.commit_epoch(epoch, [handle])


@pytest.mark.parametrize("epochs", [1, 9, 10, 11, 25])
def test_of_a_directory_with_a_log_the_listed_files_are_read(tmp_path: Path, epochs: int) -> None:
    sink_with_epochs(tmp_path / "out", epochs)
    write_parquet(tmp_path / "out" / "not-listed.parquet", [("?", 0)])
    rows = [(f"epoch-{n}", n) for n in range(1, epochs + 1)]
    assert read_all(Files(tmp_path / "out")) == rows
    assert read_all(Files(str(tmp_path / "o*"))) == rows


def test_files_of_a_watched_log_are_taken_as_soon_as_they_are_listed(tmp_path: Path) -> None:
    sink, writer = sink_with_epochs(tmp_path / "out", 1)
    source = Files(tmp_path / "out", watch=True)
    seen = frozenset(split.id for split in source.plan(frozenset()))
    assert len(seen) == 1
    commit_row(sink, writer, 2)
    (split,) = source.plan(seen)
    assert source.read(split, None).poll(10).offset == 1
    assert source.plan(seen | {split.id}) == []


def test_a_listed_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    sink_with_epochs(tmp_path / "out", 2)
    for watch in (False, True):
        source = Files(tmp_path / "out", watch=watch)
        splits = source.plan(frozenset())
        Path(splits[0].id).rename(tmp_path / "moved")
        with pytest.raises(SourceError, match=r"part-.*listed in Spark's log but is not there"):
            source.plan(frozenset())
        (tmp_path / "moved").rename(splits[0].id)


# ---------------------------------------------------------------- columns


def test_the_schema_of_the_first_parquet_file_is_taken_in_sparks_types(tmp_path: Path) -> None:
    table = pa.table(
        {
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "at": pa.array([0, 1], pa.timestamp("ns", tz="Europe/Paris")),
            "small": pa.array([1, 2], pa.uint8()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    source = Files(str(tmp_path / "a.parquet"))
    assert source.schema == pa.schema(
        [("kind", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("small", pa.int16())]
    )


def test_columns_are_matched_by_name_cast_and_others_left_out(tmp_path: Path) -> None:
    first = pa.table({"n": pa.array([1], pa.int32()), "extra": ["?"], "name": ["a"]})
    pq.write_table(first, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("extra,n,name\n?,2,b\n")
    (tmp_path / "c.json").write_text('{"extra": [1], "name": "c", "n": 3}\n')
    source = Files(str(tmp_path), schema=SCHEMA)
    assert read_all(source) == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_missing_column_names_the_file_the_format_and_the_column(
    tmp_path: Path, format: str
) -> None:
    path = tmp_path / f"data.{format}"
    WRITERS[format](path, [("a", 1)])
    source = Files(str(path), schema="name string, total long")
    with pytest.raises(SourceError, match=rf"data\.{format}' \({format}\).*'total'.*schema="):
        read_all(source)


def test_a_field_that_json_leaves_out_is_null_unless_it_is_declared_not_null(
    tmp_path: Path,
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"n": 1}\n\n{"name": "b", "n": 2}')
    assert read_all(Files(str(path), schema=SCHEMA)) == [(None, 1), ("b", 2)]
    with pytest.raises(SourceError, match=r"data\.jsonl.*'name'.*NOT NULL"):
        read_all(Files(str(path), schema="name string not null, n long"))


def test_an_empty_csv_field_is_null_and_a_quoted_one_is_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text('name,n\n,1\n"",\n"two\nlines",3\n')
    assert read_all(Files(str(path), schema=SCHEMA)) == [(None, 1), ("", None), ("two\nlines", 3)]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_times_dates_and_decimals_are_read_from_text(tmp_path: Path, format: str) -> None:
    values = [
        ("2024-05-01T12:00:00Z", "2024-05-01", "1.25"),
        ("2024-05-01 14:00:00+02:00", "2024-05-02", "2.50"),
        ("2024-05-01 12:00:00", "2024-05-03", "3.75"),
        ("2024-05-01", "2024-05-04", "4.00"),
    ]
    path = tmp_path / f"data.{format}"
    if format == "csv":
        path.write_text("at,day,price\n" + "".join(",".join(row) + "\n" for row in values))
    else:
        lines = [dict(zip(("at", "day", "price"), row, strict=True)) for row in values]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    noon = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    schema = "at timestamp, day date, price decimal(5,2)"
    assert read_all(Files(str(path), schema=schema)) == [
        (noon, date(2024, 5, 1), Decimal("1.25")),
        (noon, date(2024, 5, 2), Decimal("2.50")),
        (noon, date(2024, 5, 3), Decimal("3.75")),
        (noon.replace(hour=0), date(2024, 5, 4), Decimal("4.00")),
    ]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_compressed_text_is_read_by_its_inner_extension(tmp_path: Path, format: str) -> None:
    plain = tmp_path / f"data.{format}"
    WRITERS[format](plain, [("a", 1), ("b", 2)])
    packed = tmp_path / f"packed.{format}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_all(Files(str(packed), schema=SCHEMA), offset=1) == [("b", 2)]
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(SourceError, match=rf"packed\.{format}\.gz"):
        read_all(Files(str(packed), schema=SCHEMA))


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_a_file_without_rows_is_read_as_such(tmp_path: Path, format: str) -> None:
    WRITERS[format](tmp_path / f"data.{format}", [])
    assert read_all(Files(str(tmp_path), schema=SCHEMA)) == []


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_file_without_bytes_has_no_rows(tmp_path: Path, format: str) -> None:
    (tmp_path / f"data.{format}").write_bytes(b"")
    assert read_all(Files(str(tmp_path), schema=SCHEMA)) == []


# ---------------------------------------------------------------- rows that do not parse


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("bad.csv", "name,n\na,1\nb,two\n", r"bad\.csv:3 .*'two'"),
        ("bad.csv", "name,n\na,1\nb,2,3\n", r"bad\.csv:3 .*2 columns, got 3"),
        ("bad.json", '{"name": "a", "n": 1}\n{"name": "b", "n": "two"}\n', r"bad\.json:2 "),
        ("bad.json", '{"name": "a", "n": 1}\n\n{"name": \n{"n": 3}\n', r"bad\.json:3 "),
        (
            "bad.json",
            '{"name": "a", "n": 1}{"name": "b", "n": 2}\n',
            r"json:1 .*one JSON object",
        ),
        ("bad.parquet", "not parquet at all", r"bad\.parquet.*magic bytes"),
    ],
)
def test_a_row_that_does_not_parse_is_named_with_its_file(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=rf"(?s){place}.*Correct the"):
        read_all(Files(str(tmp_path), schema=SCHEMA))


BAD_FILES = {
    "csv": 'name,n\na,1\nb,two\n\nc,3\n"d\n",4,5\n"e\n",5\nf,six\n',
    "json": '{"name": "a", "n": 1}\n{"n": "two"}\n\n{"name": "c", "n": 3}\n[]\n'
    '{"name": "e\\n", "n": 5}\n{"n"\n',
}
BAD_LINES = {"csv": [3, 6, 10], "json": [2, 5, 7]}


@pytest.mark.parametrize("format", sorted(BAD_FILES))
@pytest.mark.parametrize("max_rows", [1, 2, 100])
@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_bad_records_are_left_out_and_counted(
    tmp_path: Path, format: str, max_rows: int, batch_rows: int
) -> None:
    (tmp_path / f"bad.{format}").write_text(BAD_FILES[format])
    source = Files(str(tmp_path), schema=SCHEMA, malformed="skip", batch_rows=batch_rows)
    (split,) = source.plan(frozenset())
    reader, rows = source.read(split, None), []
    offsets: list[tuple[int | None, int]] = [(None, 0)]
    while not (polled := reader.poll(max_rows)).finished:
        if polled.batch is not None:
            rows += map(tuple, batch_to_rows(polled.batch, row_class(source.schema)))
        offsets.append((polled.offset, len(rows)))
    assert rows == [("a", 1), ("c", 3), ("e\n", 5)]
    assert reader.skipped == 3
    for offset, emitted in offsets:
        again, rest = source.read(split, offset), []
        while not (polled := again.poll(100)).finished:
            if polled.batch is not None:
                rest += polled.batch.column("n").to_pylist()
        assert rest == [1, 3, 5][emitted:]


@pytest.mark.parametrize("format", sorted(BAD_FILES))
def test_bad_records_keep_their_place_on_the_side(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"bad.{format}"
    path.write_text(BAD_FILES[format])
    source = Files(str(path), schema="name string, n long not null", malformed="side", batch_rows=4)
    assert source.malformed_column == "_malformed"
    rows = read_all(source, max_rows=2)
    assert [row[:2] for row in rows if row[2] is None] == [("a", 1), ("c", 3), ("e\n", 5)]
    told = [row[2] for row in rows if row[2] is not None]
    assert [each.position for each in told] == [f"{path}:{n}" for n in BAD_LINES[format]]
    assert all(row[:2] == (None, None) for row in rows if row[2] is not None)
    assert told[0].raw == (b"b,two" if format == "csv" else b'{"n": "two"}')
    assert all(each.error for each in told)
    assert read_all(source, offset=3) == rows[3:]


def test_a_parquet_file_has_no_bad_records_but_the_column(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [("a", 1)])
    assert read_all(Files(str(tmp_path), malformed="side")) == [("a", 1, None)]


def test_a_parquet_text_that_is_no_utf8_or_a_time_that_no_year_has_is_named_with_its_file(
    tmp_path: Path,
) -> None:
    no_text = pa.table({"name": pa.array([b"\xff"]).view(pa.string()), "n": [1]})
    no_year = pa.table({"name": pa.array([2**62], pa.timestamp("us", tz="UTC")), "n": [1]})
    for table, ddl, problem in (
        (no_text, SCHEMA, "UTF8"),
        (no_year, "name timestamp, n long", "outside of the years"),
    ):
        pq.write_table(table, tmp_path / "bad.parquet")
        with pytest.raises(SourceError, match=rf"bad\.parquet.*column 'name'.*{problem}"):
            read_all(Files(tmp_path / "bad.parquet", schema=ddl))


def test_a_missing_column_is_no_matter_of_single_records(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [("a", 1)])
    source = Files(str(tmp_path), schema="name string, total long", malformed="skip")
    with pytest.raises(SourceError, match=r"a\.csv.*no column 'total'; it has name, n"):
        read_all(source)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(GraphError, match=r"malformed='drop'.*'fail', 'skip', 'side'"):
        Files("x", schema=SCHEMA, malformed="drop")


def test_a_value_that_cannot_be_cast_names_the_column_and_both_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "n": ["many"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet.*'n' of type string is no long.*'many'"):
        read_all(Files(str(tmp_path), schema=SCHEMA))


# ---------------------------------------------------------------- in a job


def test_a_job_over_files_gives_every_row_once_in_spite_of_crashes(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [("a", n) for n in range(200)])
    write_csv(tmp_path / "b.csv", [("b", n) for n in range(200)])
    write_json(tmp_path / "c.json", [("c", n) for n in range(200)])

    def build(env: ms.Environment) -> None:
        source = Files(str(tmp_path), schema=SCHEMA, batch_rows=7)
        env.source(source, uid="files").key_by("n").sink(ms.connectors.Memory(), uid="out")

    restored = 0
    for seed in range(8):
        result = run(build, parallelism=2, seed=seed, crashes=3)
        assert sorted(result.output("out")) == [(name, n) for name in "abc" for n in range(200)]
        restored += sum(record.restored_from is not None for record in result.attempts)
    assert restored > 0, "no seed crashed after an epoch: the test shows nothing"


@pytest.mark.parametrize("malformed", ["fail", "skip"])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("f.csv", b""),
        ("f.csv", b"a,b"),
        ("f.csv", b"a,b\n"),
        ("f.csv", b"a,b\r\n\r\n"),
        ("f.csv.gz", gzip.compress(b"")),
        ("f.csv.gz", gzip.compress(b"a,b")),
    ],
)
def test_a_csv_without_rows_is_read_as_such(
    tmp_path: Path, name: str, data: bytes, malformed: str
) -> None:
    (tmp_path / name).write_bytes(data)
    source = Files(tmp_path, schema="a string, b long", malformed=malformed)
    reader = source.read(source.plan(frozenset())[0], None)
    while not (polled := reader.poll(10)).finished:
        assert polled.batch is None


@pytest.mark.parametrize("path", ["in", "in/*.csv", "in/**/*.csv", "in/a.csv"])
def test_files_that_were_read_may_go_but_not_their_directory(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a\nx\n")
    source = Files(str(tmp_path / path), schema="a string")
    seen = frozenset(split.id for split in source.plan(frozenset()))
    (tmp_path / "in" / "a.csv").unlink()
    assert not source.plan(seen)
    (tmp_path / "in").rmdir()
    with pytest.raises(SourceError, match="no file matches"):
        source.plan(seen)
