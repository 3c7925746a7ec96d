"""Record formats: what bytes become, and that what was written is read again."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.connectors.formats.records import ArrowIpc, Format, Json, Raw
from mainstay.errors import GraphError, SinkError
from mainstay.schema import batch_to_rows, row_class, to_schema
from mainstay.schema.ipc import to_ipc

TYPES = (
    "a long, b string, c double, d timestamp, e date, f binary, g array<long>, h struct<x:int>, "
    "i decimal(10,2), j boolean"
)
ROW: dict[str, Any] = {
    "a": -1,
    "b": 'a "quoted" \\ é text',
    "c": 1.5,
    "d": datetime(2024, 1, 2, 3, 4, 5, 600, tzinfo=timezone.utc),
    "e": date(2024, 1, 2),
    "f": b"\x00\xff",
    "g": [1, 2],
    "h": {"x": 3},
    "i": Decimal("1.25"),
    "j": True,
}
NOTHING: dict[str, Any] = dict.fromkeys(ROW)


@pytest.mark.parametrize("format", [Json(TYPES), ArrowIpc(TYPES)])
def test_rows_of_every_type_are_read_as_they_were_written(format: Format) -> None:
    rows = [ROW, NOTHING, {**ROW, "b": "two\nlines \x01", "c": -0.25}]
    batch = pa.RecordBatch.from_pylist(rows, to_schema(TYPES))
    decoded = format.decode(format.encode(batch))
    assert decoded.errors == {}
    assert decoded.batch.to_pylist() == batch.to_pylist()
    assert int(decoded.rows.sum()) == 3


def test_json_is_written_on_one_line_without_nulls_and_as_json() -> None:
    batch = pa.RecordBatch.from_pylist([ROW, NOTHING], to_schema(TYPES))
    first, second = Json().encode(batch)
    assert first is not None
    assert b"\n" not in first
    assert json.loads(first) == {
        **ROW,
        "d": "2024-01-02T03:04:05.000600Z",
        "e": "2024-01-02",
        "f": "AP8=",
        "i": "1.25",
    }
    assert second == b"{}"


def test_numbers_that_json_does_not_have_are_written_as_texts() -> None:
    batch = pa.record_batch({"x": [float("nan"), float("-inf"), 2.0]})
    assert [json.loads(text or b"") for text in Json().encode(batch)] == [
        {"x": "NaN"},
        {"x": "-Infinity"},
        {"x": 2.0},
    ]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text()), max_size=20))
def test_any_text_and_number_survives_json(rows: list[tuple[int, str]]) -> None:
    columns = {"n": pa.array([n for n, _ in rows], pa.int64()), "s": [s for _, s in rows]}
    batch = pa.record_batch(columns, to_schema("n long, s string"))
    decoded = Json("n long, s string").decode(Json().encode(batch))
    assert (decoded.errors, decoded.batch.to_pylist()) == ({}, batch.to_pylist())


def test_what_is_no_json_object_of_the_schema_is_found_among_the_others() -> None:
    records = [
        b'{"a": 1}',
        b'{"a": "x"}',
        b"",
        b'{"a": 2}{"a": 3}',
        b' {"a": 4,\n "z": [1]}',
        None,
        b"[1]",
        b'{"a": 1.5}',
        b'{"a": 9',
        b'{"a": 5, "a": 6}',
        b'{"a": 7}',
    ]
    decoded = Json("a long").decode(records)
    assert decoded.batch.column("a").to_pylist() == [1, 4, None, 7]
    assert sorted(decoded.errors) == [1, 2, 3, 6, 7, 8, 9]
    assert decoded.rows.tolist() == [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]


def test_two_records_in_one_do_not_make_up_for_one_without_any() -> None:
    decoded = Json("a long").decode([b'{"a": 1}{"a": 2}', b"   ", b'{"a": 3}'])
    assert decoded.batch.column("a").to_pylist() == [3]
    assert sorted(decoded.errors) == [0, 1]


def test_a_null_where_there_may_be_none_is_an_error_of_that_record() -> None:
    decoded = Json("a long not null").decode([b"{}", b'{"a": 1}', None])
    assert decoded.batch.to_pylist() == [{"a": 1}]
    assert "NOT NULL" in decoded.errors[0]
    assert sorted(decoded.errors) == [0, 2]


def test_times_without_a_zone_are_utc() -> None:
    texts = ["2024-01-02T03:04:05", "2024-01-02 05:04:05+02:00", "2024-01-02T03:04:05Z"]
    records = [json.dumps({"t": text}).encode() for text in texts]
    found = Json("t timestamp").decode([*records, b'{"t": "soon"}'])
    assert set(found.batch.column("t").to_pylist()) == {
        datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    }
    assert list(found.errors) == [3]


def test_raw_bytes_are_one_column() -> None:
    assert Raw().decode([b"a", None]).batch.to_pylist() == [{"value": b"a"}, {"value": None}]
    decoded = Raw("text", "string").decode([b"a", b"\xff", None])
    assert decoded.batch.column("text").to_pylist() == ["a", None]
    assert list(decoded.errors) == [1]
    batch = pa.record_batch({"n": [1, 2], "text": ["a", None]})
    assert Raw("text").encode(batch) == [b"a", None]
    with pytest.raises(SinkError, match="but the rows have n, text"):
        Raw("other").encode(batch)
    with pytest.raises(SinkError, match="of type int64"):
        Raw("n").encode(batch)


def test_arrow_streams_are_cut_into_records_and_fitted_to_the_schema() -> None:
    batch = pa.record_batch({"n": pa.array(range(5), pa.int32()), "x": [None] * 5})
    records = ArrowIpc(rows_per_record=2).encode(batch)
    decoded = ArrowIpc("n long").decode([records[0], None, b"no stream", *records[1:]])
    assert decoded.batch.column("n").to_pylist() == [0, 1, 2, 3, 4]
    assert decoded.batch.schema.equals(to_schema("n long"))
    assert decoded.rows.tolist() == [2, 0, 0, 2, 1]
    assert list(decoded.errors) == [2]
    assert "no column 'm'" in ArrowIpc("m long").decode(records[:1]).errors[0]


def test_a_format_says_what_it_cannot_do() -> None:
    with pytest.raises(GraphError, match=r"as in Json\(\"customer string"):
        Json().schema_to_read()
    with pytest.raises(GraphError, match="json has no spelling"):
        Json("m map<struct<a:int>,long>")
    with pytest.raises(GraphError, match='"binary" or "string"'):
        Raw("v", "long")
    with pytest.raises(GraphError, match="must be at least 1"):
        ArrowIpc(rows_per_record=0)


def _arrow_record(column: pa.Array) -> bytes:
    return to_ipc([pa.record_batch([column], ["text"])], pa.schema([("text", column.type)]))


def test_arrow_streams_whose_buffers_are_not_what_they_say_are_malformed() -> None:
    right, wrong = (np.array([0, 1, end], np.int32).tobytes() for end in (7, 1_000_000_000))
    foreign = _arrow_record(pa.array(["a", "bcdefg"])).replace(right, wrong)
    no_text = pa.array([b"\xff"]).view(pa.string())
    no_year = pa.array([2**62], pa.timestamp("us", tz="UTC"))
    good = pa.array(["a"])
    first, text, last = map(_arrow_record, (good, no_text, good))
    decoded = ArrowIpc("text string").decode([first, foreign, text, last])
    assert decoded.batch.to_pylist() == [{"text": "a"}, {"text": "a"}]
    assert sorted(decoded.errors) == [1, 2]
    assert sorted(ArrowIpc("text timestamp").decode([_arrow_record(no_year)]).errors) == [0]


def test_what_is_in_json_and_could_not_be_looked_at_is_malformed() -> None:
    records = [
        b'{"text":"\xff"}',
        b'{"text":"\xed\xa0\x80"}',
        b"null",
        b'{"text":"good"}',
        b'{"text":"0000-01-01"}',
    ]
    decoded = Json("text string").decode(records)
    assert sorted(decoded.errors) == [0, 1, 2]
    assert "UTF-8" in decoded.errors[0]
    assert sorted(Json("text date").decode(records[-1:]).errors) == [0]
    assert sorted(Json("text timestamp").decode(records[-1:]).errors) == [0]


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("v double", '{"v":"NaN"}', None),
        ("v double", '{"v":"-Infinity","w":"NaN"}', -math.inf),
        ("v string", '{"v":"NaN"}', "NaN"),
        ("v struct<a:double,b:string>", '{"v":{"a":"Infinity","b":"NaN"}}', (math.inf, "NaN")),
        ("v array<binary>", '{"v":["YWI=",null]}', [b"ab", None]),
        ("v map<string,double>", '{"v":{"a":"Infinity","b":1.5}}', {"a": math.inf, "b": 1.5}),
        ("v map<int,binary>", '{"v":{"7":"YWI="}}', {7: b"ab"}),
        ("v decimal(30,2)", '{"v":"1234567890123456789012345678.12","x":"NaN"}', None),
    ],
)
def test_json_reads_what_it_has_no_type_for_at_every_depth(ddl: str, text: str, value: Any) -> None:
    decoded = Json(ddl).decode([text.encode()])
    assert decoded.errors == {}
    (row,) = batch_to_rows(decoded.batch, row_class(decoded.batch.schema))
    if value is None:
        assert str(row[0]) in ("nan", "1234567890123456789012345678.12")
    else:
        found = row[0] if not isinstance(value, tuple) else tuple(row[0])
        assert found == value


def test_a_name_that_occurs_twice_is_malformed_however_the_record_is_read() -> None:
    record = b'{"a":1.5,"a":2.5,"b":"NaN"}'
    assert sorted(Json("a double").decode([record]).errors) == [0]
    assert sorted(Json("a double, m map<string,int>").decode([record]).errors) == [0]
