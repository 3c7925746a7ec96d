"""The columns of the source of files, and rows that do not parse."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mainstay.connectors import Files
from mainstay.errors import GraphError, SourceError
from mainstay.schema import batch_to_rows, row_class
from tests.unit.connectors.files.file_sources import (
    SCHEMA,
    WRITERS,
    read_all,
    write_csv,
    write_parquet,
)

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


def test_the_columns_of_a_header_are_quoted_so_that_a_blank_is_seen(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("name, n\na,5\n")
    with pytest.raises(SourceError, match="no column 'n'; it has 'name', ' n'"):
        read_all(Files(str(tmp_path), schema=SCHEMA))


def test_an_empty_csv_file_is_named_once_in_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "header.csv").write_text("name,n\n")
    (tmp_path / "empty.jsonl").touch()
    source = Files(str(tmp_path), schema=SCHEMA)
    assert read_all(source) == read_all(source) == []
    (said,) = [(record.levelname, record.getMessage()) for record in caplog.records]
    path = str(tmp_path / "empty.csv")
    assert said == ("WARNING", f"file {path!r} is empty: it has no header and no rows")


def test_what_ends_in_a_full_stop_is_given_no_second_one(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("v\n123456.78\n")
    with pytest.raises(SourceError, match=r"precision not supported by type\. [A-Z]"):
        read_all(Files(str(tmp_path), schema="v decimal(5,2)"))


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


@pytest.mark.parametrize("malformed", ["fail", "skip", "side"])
def test_a_header_that_is_no_utf8_is_named_with_its_file(tmp_path: Path, malformed: str) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes("name,n,größe\nalice,1,2\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"data\.csv(?s:.*)the header in line 1 is not UTF-8"):
        read_all(Files(str(path), schema=SCHEMA, malformed=malformed))


@pytest.mark.parametrize("malformed", ["fail", "skip"])
def test_a_csv_without_a_header_says_that_the_first_line_names_the_columns(
    tmp_path: Path, malformed: str
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("alice,1\nbob,2\n")
    with pytest.raises(SourceError, match="first line of a CSV file must name its"):
        read_all(Files(str(path), schema=SCHEMA, malformed=malformed))


@pytest.mark.parametrize("text", ["0x10", "0X1F", "0xFFFFFFFFFFFFFFFF", "1_000", "1e3", "1.0", ""])
@pytest.mark.parametrize("type", ["byte", "int", "long"])
def test_a_whole_number_in_csv_has_decimal_digits(tmp_path: Path, text: str, type: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f'note,n\n0xff,-7\nblank, 5 \nabsent,\nbad,"{text}"\ngood,007\n')
    schema = f"note string, n {type}"
    side = read_all(Files(str(path), schema=schema, malformed="side"))
    assert [row[:2] for row in side if row[2] is None] == [
        ("0xff", -7),
        ("blank", 5),
        ("absent", None),
        ("good", 7),
    ]
    assert [row[2].position for row in side if row[2]] == [f"{path}:5"]
    with pytest.raises(SourceError, match=r"data\.csv:5(?s:.*)column 'n'"):
        read_all(Files(str(path), schema=schema))


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
    with pytest.raises(SourceError, match=r"a\.csv.*no column 'total'; it has 'name', 'n'"):
        read_all(source)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(GraphError, match=r"malformed='drop'.*'fail', 'skip', 'side'"):
        Files("x", schema=SCHEMA, malformed="drop")


def test_a_value_that_cannot_be_cast_names_the_column_and_both_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "n": ["many"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet.*'n' of type string is no long.*'many'"):
        read_all(Files(str(tmp_path), schema=SCHEMA))
