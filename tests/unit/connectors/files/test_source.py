"""The source of files: read again from any offset, found, watched."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.connectors import Files, ParquetSink, SinkContext, SinkWriter, Source, Split
from mainstay.connectors.files import absences as file_absences
from mainstay.errors import GraphError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from mainstay.testing import run
from tests.sinks import prepare, write
from tests.unit.connectors.files.file_sources import (
    SCHEMA,
    WRITERS,
    read_all,
    write_csv,
    write_json,
    write_parquet,
)

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
    monkeypatch.setattr("mainstay.connectors.files.source.monotonic", lambda: next(times))
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
        ("f.csv.gz", gzip.compress(b"", mtime=0)),
        ("f.csv.gz", gzip.compress(b"a,b", mtime=0)),
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


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("number", ["1000", "-1000", "1000.00", "99999"])
def test_a_decimal_with_too_many_digits_before_the_point_is_malformed(
    tmp_path: Path, suffix: str, number: str, nested: bool
) -> None:
    if nested and suffix == "csv":
        pytest.skip("CSV holds no lists")
    path = tmp_path / f"data.{suffix}"
    if suffix == "csv":
        path.write_text(f"n,d\n1,999.99\n2,{number}\n3,-999.99\n")
    else:
        shown = "[{}]" if nested else "{}"
        rows = [(1, "999.99"), (2, number), (3, "-999.99")]
        lines = (f'{{"n": {n}, "d": {shown.format(chr(34) + d + chr(34))}}}\n' for n, d in rows)
        path.write_text("".join(lines))
    schema = f"n long, d {'array<decimal(5,2)>' if nested else 'decimal(5,2)'}"
    with pytest.raises(SourceError, match=r"data\.(?s:.*)decimal(128)?\(5, ?2\)"):
        read_all(Files(str(path), schema=schema))
    assert [row[0] for row in read_all(Files(str(path), schema=schema, malformed="skip"))] == [1, 3]
