"""Rows in a table of PostgreSQL, as psycopg sees them, and rows that psycopg wrote, as the source
gives them."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.connectors.postgres import PostgresSink, PostgresSource
from mainstay.errors import SinkError, SourceError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed, read
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, rows_of
from tests.services.postgres import asked

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]


def named() -> str:
    return f"t{uuid4().hex[:10]}"


def numbered(table: Table) -> Table:
    """The rows with a number first, in whose order they are read."""
    schema = pa.schema([pa.field("n ", pa.int64(), nullable=False), *table.schema])
    return Table(schema, (tuple(range(len(table.columns[0]))), *table.columns))


def seen(dsn: str, name: str | tuple[str, str], schema: pa.Schema) -> list[Any]:
    """The rows by their numbers, from the texts that the server gives for them."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    place = (name,) if isinstance(name, str) else name
    texts = SQL(", ").join(SQL("{}::text").format(Identifier(n)) for n in schema.names)
    order = Identifier(*place, schema.names[0])
    query = SQL("SELECT {} FROM {} ORDER BY {}").format(texts, Identifier(*place), order)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        rows = connection.execute(query).fetchall()
    return rows_of(
        ([from_text(t, f.type) for t, f in zip(row, schema, strict=True)] for row in rows), schema
    )


def from_text(text: str | None, kind: pa.DataType) -> Any:
    """A value from the text that the server has for it."""
    if text is None or pa.types.is_string(kind):
        return text
    if pa.types.is_nested(kind):
        return from_json(json.loads(text), kind)
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(kind):
        return int(text)
    return scalar(text, kind)


def scalar(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return float(np.float32(text)) if pa.types.is_float32(kind) else float(text)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_binary(kind):
        assert text.startswith("\\x")
        return bytes.fromhex(text[2:])
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    at = datetime.fromisoformat(text.replace("+00", "+00:00") if text.endswith("+00") else text)
    assert (at.tzinfo is None) == (kind.tz is None)
    return at


def from_json(value: Any, kind: pa.DataType) -> Any:
    """A value in a list, a map or a struct, by what the page on PostgreSQL says of JSON."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: from_json(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if pa.types.is_string(kind.key_type) else value
        return [(from_json(k, kind.key_type), from_json(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_list(kind):
        return [from_json(each, kind.value_type) for each in value]
    if pa.types.is_floating(kind):
        return float(np.float32(value)) if pa.types.is_float32(kind) else float(value)
    is_own = any(
        is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)
    )
    return value if is_own else scalar(value, kind)


def holds(value: Any, is_bad: Any) -> bool:
    if isinstance(value, dict):
        return any(holds(part, is_bad) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return any(holds(part, is_bad) for part in value)
    return bool(is_bad(value))


def is_held(value: Any, kind: pa.DataType) -> bool:
    """Whether the server has a place for a value. No text has a zero byte. JSON has finite numbers
    alone, and jsonb one zero, which the page says."""
    if holds(value, lambda part: isinstance(part, str) and "\0" in part):
        return False
    return not (pa.types.is_nested(kind) and holds(value, is_no_json))


def is_no_json(part: Any) -> bool:
    is_zero = isinstance(part, float) and part == 0.0 and math.copysign(1, part) < 0
    return is_zero or (isinstance(part, float) and not math.isfinite(part))


def held(table: Table) -> Table:
    """The rows that the server can hold."""
    fields = list(table.schema)
    rows = [
        row
        for row in table.rows
        if all(is_held(value, field.type) for value, field in zip(row, fields, strict=True))
    ]
    return Table(table.schema, tuple(zip(*rows, strict=True)))


def ordered(dsn: str, name: str) -> None:
    asked(dsn, f'CREATE UNIQUE INDEX ON {name} ("n ")')


def check_both_ways(dsn: str, table: Table, *, is_there: bool = False) -> None:
    """Written by the sink, seen by another client, and read by the source; where the table is
    there already, with the rows of an earlier job."""
    rows, name = numbered(table), named()
    if is_there:
        committed(PostgresSink(dsn, (name,), create=True), rows.batch)
        rows = Table(
            rows.schema,
            (tuple(range(2 * len(rows.rows))), *(2 * values for values in table.columns)),
        )
    new = rows.batch.slice(len(rows.rows) // 2 if is_there else 0)
    committed(PostgresSink(dsn, (name,), create=True), new)
    expected = rows_of(rows.rows, rows.schema)
    assert seen(dsn, name, rows.schema) == expected
    ordered(dsn, name)
    source = PostgresSource(
        dsn, (name,), schema=rows.schema, column="n ", bounded=True, lag=0, batch_rows=7
    )
    assert arrow_rows(read(source, 5), rows.schema) == expected


@pytest.mark.parametrize("is_there", [False, True])
def test_every_listed_value_of_every_type_is_written_and_read_as_it_is(
    dsn: str, is_there: bool
) -> None:
    wide = kinds.wide([held(table) for table in kinds.catalogue()])
    check_both_ways(dsn, wide, is_there=is_there)


def test_drawn_rows_are_written_and_read_as_they_are(dsn: str) -> None:
    @settings(max_examples=kinds.examples(12))
    @given(kinds.tables(), st.booleans())
    def check(table: Table, is_there: bool) -> None:
        rows = held(table)
        if rows.columns:
            check_both_ways(dsn, rows, is_there=is_there)

    check()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), "a\0b"),
        (pa.list_(pa.string()), ["a\0b"]),
        (pa.map_(pa.string(), pa.int32()), [("\0", 1)]),
        (pa.struct([("f", pa.string())]), {"f": "\0"}),
        (pa.list_(pa.float64()), [math.nan]),
        (pa.list_(pa.float32()), [-math.inf]),
    ],
)
def test_a_value_that_no_column_can_hold_is_refused_by_the_name_of_its_column(
    dsn: str, kind: pa.DataType, value: Any
) -> None:
    rows, name = numbered(kinds.one_column(kind, value)), named()
    with pytest.raises(SinkError, match=r"column 'v'.*(zero byte|no such number)"):
        committed(PostgresSink(dsn, (name,), create=True), rows.batch)
    assert asked(dsn, f"SELECT count(*) FROM {name}") == [(0,)]


ARRAYS: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "bytea[]": (pa.binary(), r"ARRAY['\x6100', '', NULL]::bytea[]", [b"a\0", b"", None]),
    "date[]": (pa.date32(), "ARRAY['0001-01-01', NULL]::date[]", [date(1, 1, 1), None]),
    "numeric[]": (
        pa.decimal128(38, 20),
        "ARRAY[1.23456789012345678901, -0.5, 7]::numeric[]",
        [Decimal("1.23456789012345678901"), Decimal("-0.50000000000000000000"), Decimal(7)],
    ),
    "float8[]": (
        pa.float64(),
        "ARRAY['NaN', '-Infinity', '1e22', '5e-324', '0.1']::float8[]",
        [math.nan, -math.inf, 1e22, 5e-324, 0.1],
    ),
    "timestamptz[]": (
        pa.timestamp("us", tz="UTC"),
        "ARRAY['2024-05-01 12:00:00.5+02', NULL]::timestamptz[]",
        [datetime(2024, 5, 1, 10, 0, 0, 500_000, timezone.utc), None],
    ),
    "timestamp[]": (
        pa.timestamp("us"),
        "ARRAY['2024-05-01 12:00:00.123456']::timestamp[]",
        [datetime(2024, 5, 1, 12, 0, 0, 123_456)],
    ),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_of_the_server_is_read_with_every_digit_and_byte(dsn: str, kind: str) -> None:
    element, literal, values = ARRAYS[kind]
    asked(dsn, f'CREATE TABLE t ("n " bigint PRIMARY KEY, v {kind})')
    asked(dsn, f"INSERT INTO t VALUES (1, {literal})")
    schema = pa.schema([("v", pa.list_(element))])
    source = PostgresSource(dsn, "t", schema=schema, column="n ", bounded=True, lag=0)
    wanted = [
        value.quantize(Decimal(1).scaleb(-20)) if kind == "numeric[]" else value for value in values
    ]
    assert arrow_rows(read(source), schema) == rows_of([[wanted]], schema)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("array<binary>", '["YQ=="]'),
        ("array<date>", '["infinity"]'),
        ("array<decimal(5,2)>", "[1.234]"),
        ("array<decimal(5,2)>", '["NaN"]'),
        ("array<float>", "[1e400]"),
        ("array<long>", "[1.5]"),
        ("array<timestamp_ntz>", '["2024-05-01T12:00:00+02:00"]'),
        ("map<string,int>", "[1, 2]"),
    ],
)
def test_json_of_another_type_is_malformed_and_names_its_column(
    dsn: str, kind: str, text: str
) -> None:
    asked(dsn, "CREATE TABLE t (n bigint PRIMARY KEY, v json)")
    asked(dsn, f"INSERT INTO t VALUES (1, '{text}')")
    source = PostgresSource(dsn, "t", schema=f"v {kind}", column="n", bounded=True, lag=0)
    with pytest.raises(SourceError, match=r"n = 1 does not fit.*column 'v'"):
        read(source)
