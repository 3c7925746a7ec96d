"""Files of lines by the block and by the record: the quick way reads what the other one does."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstay.connectors.files import text_blocks
from mainstay.connectors.files.csv_reading import csv_blocks
from mainstay.connectors.files.formats import _JsonParser
from mainstay.connectors.files.sifting import ERRORS, Parser, sifted, sifted_apart
from mainstay.connectors.files.text_blocks import Block, Csv, JsonLines, Layout, after, blocks_of
from mainstay.connectors.formats import json_reading
from mainstay.connectors.formats.text_times import mixed_timestamps_of, timestamps_of
from mainstay.connectors.kafka import Json
from mainstay.errors import SchemaError
from mainstay.schema import to_schema

SCHEMA = to_schema("name string, n long, x double, f float, at timestamp, day date")
LAYOUTS: list[Layout] = [Csv(keep_empty=False), Csv(keep_empty=True), JsonLines()]

csv_bytes = st.one_of(
    st.text('a1",\r\n', max_size=40).map(str.encode),
    st.lists(
        st.sampled_from(
            ["a", '"a"', '"a,b"', '"a\nb"', '"a""b"', '5"', "1", ",", "\n", "\n", "\r\n", "\r", '"']
        ),
        max_size=30,
    ).map(lambda parts: "".join(parts).encode()),
)


def records_of(layout: Layout, data: bytes) -> list[bytes]:
    return [record.raw for record in layout.records_of(Block(1, data, None))]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["csv", "csv with empty lines", "json"])
def test_a_cut_block_has_the_records_that_going_through_it_finds(layout: Layout) -> None:
    @settings(deadline=None, max_examples=40)
    @given(csv_bytes, st.booleans())
    @example(b'a"b\n"c\n', True)
    @example(b'"a""\nb"\n1\n', False)
    @example(b'"a"\r\n\r\n"b"', True)
    def check(data: bytes, is_end: bool) -> None:
        measured = layout.measure(data, is_end=is_end)
        whole, rest = data[: measured.size_bytes], data[measured.size_bytes :]
        assert not (is_end and rest)
        assert records_of(layout, whole) + records_of(layout, rest) == records_of(layout, data)
        if measured.records is not None:
            assert measured.records == len(records_of(layout, whole))
        if not is_end and isinstance(layout, Csv):
            assert measured.lines == len(whole.splitlines())

    check()


@settings(deadline=None, max_examples=40)
@given(csv_bytes, st.integers(1, 9), st.integers(0, 6))
def test_blocks_of_every_size_have_the_same_records_and_lines(
    data: bytes, block_bytes: int, skip: int
) -> None:
    for layout in LAYOUTS:
        before, text_blocks.BLOCK_BYTES = text_blocks.BLOCK_BYTES, block_bytes
        try:
            blocks = list(after(blocks_of(io.BytesIO(data), layout), layout, skip))
        finally:
            text_blocks.BLOCK_BYTES = before
        found = [record for block in blocks for record in layout.records_of(block)]
        assert found == list(layout.records_of(Block(1, data, None)))[skip:]


# ---------------------------------------------------------------- rows

_numbers = st.sampled_from(
    ["", "1", "-5", " 7 ", "+3", "0x10", "0X1f", "1e400", "inf", "nan", "1.5", "1e39", '"2"', '""']
)
_times = st.sampled_from(
    [
        "2024-05-01T10:11:12Z",
        "2024-05-01 10:11",
        "2024-05-01T10:11Z",
        "2024-05-01",
        "2024-05-01T10Z",
        "2024-05-01T101112.123456Z",
        "2024-05-01 10:11:12.5+02:00",
        "2024-05-01T10:11:12 Z",
        "",
        "Z",
    ]
)
_names = st.sampled_from(["a", '"a"', '"b,c"', '"b\nc"', '5"', "0x", "é", "", '""'])
_csv_rows = st.tuples(_names, _numbers, _numbers, _numbers, _times, _times).map(",".join)


def rows_of(batch: pa.RecordBatch) -> list[str]:
    return list(map(repr, batch.to_pylist()))


def check_alike(block: Block, layout: Layout, parser: Parser) -> None:
    """What the quick way vouches for is what the slow one reads, and has no bad record."""
    slow = sifted_apart("f", list(layout.records_of(block)), parser.each, SCHEMA)
    both = sifted("f", block, layout, parser, SCHEMA)
    assert rows_of(both.good) == rows_of(slow.good)
    assert (both.records, both.bad) == (slow.records, slow.bad)


@settings(deadline=None, max_examples=40)
@given(st.lists(_csv_rows, max_size=4), st.sampled_from(["\n", "\r\n"]))
@example(["a,1,1.5,1.5,2024-05-01T10:11:12Z,2024-05-01"] * 2, "\n")
@example(["a,0x10,1,1,,"], "\n")
@example(["a,1,1e400,1,,", "a,1,inf,inf,,"], "\n")
@example(["a,1,1,1e39,,"], "\n")
def test_csv_by_the_block_is_csv_by_the_record(rows: list[str], end: str) -> None:
    data = end.join(["name,n,x,f,at,day", *rows, ""]).encode()
    found = csv_blocks("data.csv", io.BytesIO(data), SCHEMA)
    assert found is not None
    blocks, layout, parser = found
    for block in blocks:
        check_alike(block, layout, parser)


_json_values = {
    "name": ['"a"', "null", '"NaN"', "5", '"\\ud800"', '"}\\n{"'],
    "n": ["1", "1.5", "null", '"1"', "99999999999999999999", "{}"],
    "x": ["1.5", '"NaN"', "NaN", "1e400", "null", "-Infinity"],
    "f": ["1.5", "1e39", '"Infinity"'],
    "at": ['"2024-05-01T10:11:12Z"', '"2024-05-01"', '"2024-05-01T10Z"', "5"],
    "day": ['"2024-05-01"', '"2024"'],
    "u": ["{}", '{"v":[{}]}', "[{}", "["],
}
_members = st.sampled_from(
    [f'"{name}":{value}' for name, values in _json_values.items() for value in values]
)
_json_lines = st.one_of(
    st.lists(_members, max_size=3).map(lambda members: "{" + ",".join(members) + "}"),
    st.sampled_from(["", " ", "{}{}", '{"u":', '{"n":1}}', "null", "{", "}", ' {"n":1} ']),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(_json_lines, max_size=5), st.sampled_from(["\n", "\r\n"]))
@example(['{"u":', '{"n":1}}', '{"n":2}{"n":3}'], "\n")
@example(['{"name":"}', '{"}', "{}{}"], "\n")
def test_json_by_the_block_is_json_by_the_record(lines: list[str], end: str) -> None:
    data = end.join([*lines, ""]).encode()
    layout = JsonLines()
    for block in blocks_of(io.BytesIO(data), layout):
        check_alike(block, layout, _JsonParser(SCHEMA))


@settings(deadline=None, max_examples=40)
@given(st.lists(_json_lines, min_size=1, max_size=4))
@example(['{"u":', '{"n":1}}', '{"n":2}{"n":3}'])
def test_json_records_are_the_same_together_and_apart(lines: list[str]) -> None:
    records = [line.encode() for line in lines]
    together = Json(SCHEMA).decode(records)
    assert sorted(together.errors) == [n for n, record in enumerate(records) if not _row(record)]
    assert rows_of(together.batch) == [row for record in records for row in _row(record)]


def _row(record: bytes) -> list[str]:
    try:
        return rows_of(json_reading.parse([record], SCHEMA))
    except json_reading.ERRORS:
        return []


def test_a_record_that_goes_on_in_the_next_one_is_bad_like_the_one_it_goes_on_in() -> None:
    """Three lines gave three rows: the first two together one, and the last two."""
    records = [b'{"u":', b'{"n":1}}', b'{"n":2}{"n":3}']
    with pytest.raises(SchemaError):
        json_reading.parse(records, SCHEMA)
    assert sorted(Json(SCHEMA).decode(records).errors) == [0, 1, 2]


# ---------------------------------------------------------------- times

_digits = st.sampled_from(["10", "1011", "10:11", "10:11:12", "101112", "10:11:12.5", "25:00", ""])
_zones = st.sampled_from(["", "Z", " Z", "+02", "+0200", "-02:00", "z", " "])
_texts = st.one_of(
    st.none(),
    st.builds(
        lambda t, time, zone: f"2024-05-01{t}{time}{zone}",
        st.sampled_from(["T", " ", ""]),
        _digits,
        _zones,
    ),
)


def outcome(read: Any, texts: Sequence[str | None]) -> Any:
    try:
        return read(pa.array(texts, pa.string())).to_pylist()
    except ERRORS:
        return "refused"


@settings(deadline=None, max_examples=40)
@given(st.lists(_texts, max_size=3))
@example(["2024-05-01T10Z"])
@example(["2024-05-01T101112.123456Z"])
@example([None, "2024-05-01T10:11Z"])
def test_times_that_are_alike_are_read_like_each_by_itself(texts: list[str | None]) -> None:
    assert outcome(timestamps_of, texts) == outcome(mixed_timestamps_of, texts)
