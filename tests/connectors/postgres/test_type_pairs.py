"""Every type of ours and every type of column: a value is kept as it is, or refused by name."""

from __future__ import annotations

import ipaddress
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.connectors import Order, SinkContext
from mainstay.connectors.postgres import PostgresSink, PostgresUpsertSink
from mainstay.connectors.postgres.columns import Column, check_columns, columns_of
from mainstay.connectors.postgres.session import Server
from mainstay.errors import SinkError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from tests.connectors.postgres.test_encodings import append, read_all
from tests.services.postgres import asked
from tests.sinks import recovery

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

AT = datetime(2024, 5, 1, 12, 30, 59, 987654)
TEXTS = [
    *("", "a", "abc", "abcd", "abc ", "a ", " a", "é" * 3, "x" * 63, "x" * 64, "é" * 32),
    *('{"b": 1.10, "a": 2}', "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "10.0.0.1/32", "<a> </a>"),
    *("good", "Good"),
]
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "byte": [-128, 127],
    "short": [-32768, 32767],
    "int": [-(2**31), -1, 2**31 - 1, 12345],
    "long": [-(2**63), 2**63 - 1, 12345, 2**53 + 1],
    "float": [0.1, 3.4028235e38, 1e-45, 16777216.0, float("nan"), float("-inf"), -0.0],
    "double": [0.1, 1 / 3, 1.7976931348623157e308, 5e-324, float("nan"), float("inf")],
    "decimal(10,4)": [Decimal(text) for text in ("1.2345", "-123456.7891", "0.0001", "99.99")],
    "decimal(10,2)": [Decimal(text) for text in ("1.25", "-12345678.91", "99.99")],
    "decimal(38,0)": [Decimal(10**38 - 1), Decimal(150), Decimal(99)],
    "string": TEXTS,
    "binary": [b"", b"\x00\xff", b"text"],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
    "timestamp": [at.replace(tzinfo=timezone.utc) for at in (AT, datetime(1, 1, 1), datetime.max)],
    "timestamp_ntz": [AT, datetime(1, 1, 1), datetime.max],
    "array<decimal(10,4)>": [[Decimal("1.2345")], []],
    "map<string,double>": [{"a": 0.1}, {}],
    "map<int,binary>": [{1: b"a"}, {}],
    "struct<a:timestamp,b:string>": [(AT.replace(tzinfo=timezone.utc), "ü")],
}
JSON = {
    "array<decimal(10,4)>": [["1.2345"], []],
    "map<string,double>": [{"a": 0.1}, {}],
    "map<int,binary>": [[[1, "\\x61"]], []],
    "struct<a:timestamp,b:string>": [{"a": "2024-05-01T12:30:59.987654+00:00", "b": "ü"}],
}
COLUMNS = [
    *("boolean", "smallint", "integer", "bigint", "oid", "money", "numeric", "numeric(6,0)"),
    *("numeric(4,2)", "numeric(12,4)", "numeric(38,0)", "cents", "real", "double precision"),
    *("text", "varchar", "varchar(3)", "char(3)", "bpchar", "name", '"char"', "uuid", "json"),
    *("jsonb", "xml", "inet", "mood", "word", "bytea", "date", "time", "interval", "bit(3)"),
    *("timestamp", "timestamp(0)", "timestamp(3)", "timestamp(6)", "seconds"),
    *("timestamptz", "timestamptz(0)", "timestamptz(3)", "timestamptz(6)", "text[]", "int4range"),
]
ALTERING = {
    "decimal(10,4)": ("numeric(6,0)", "numeric(4,2)", "numeric(38,0)", "cents"),
    "decimal(10,2)": ("numeric(6,0)", "numeric(38,0)"),
    "timestamp": ("timestamptz(0)", "timestamptz(3)"),
    "timestamp_ntz": ("timestamp(0)", "timestamp(3)", "seconds"),
}
"""Columns that take a type, and would round some of its values."""


@pytest.fixture
def types(dsn: str) -> str:
    """Types of the database's owner: an enum, and domains that limit what is below them."""
    asked(
        dsn,
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN cents AS numeric(12,2); "
        "CREATE DOMAIN word AS varchar(3); CREATE DOMAIN seconds AS timestamp(0)",
    )
    if asked(dsn, "SELECT current_setting('server_version_num')::int >= 150000") == [(True,)]:
        asked(dsn, "CREATE DOMAIN hundreds AS numeric(6,-2)")
    return dsn


def schema_of(kind: str) -> pa.Schema:
    return to_schema(f"k int, v {kind}")


def fitting_pairs(dsn: str, kind: str) -> Iterator[str]:
    """The columns that the sinks take for a type."""
    with Server.checked(dsn, "1min", "a test").connect("a test", SinkError) as session:
        for number, column in enumerate(COLUMNS):
            asked(dsn, f"CREATE TABLE p{number} (k int PRIMARY KEY, v {column})")
            found = columns_of(session, (f"p{number}",))
            assert found is not None
            refusal = refusal_of(kind, found)
            if refusal is None:
                yield column
            else:
                assert f"column 'v' ({kind})" in refusal
                assert "Cast it in the stream, or make" in refusal


def refusal_of(kind: str, columns: dict[str, Column]) -> str | None:
    try:
        check_columns(schema_of(kind), columns, "table")
    except SinkError as error:
        return str(error)
    return None


SAME: dict[str, Callable[[Any, str], bool]] = {
    "boolean": lambda value, text: text == ("true" if value else "false"),
    "float": lambda value, text: np.array_equal(np.float32(value), np.float32(text), True),
    "double": lambda value, text: np.array_equal(value, float(text), True),
    "binary": lambda value, text: text == f"\\x{value.hex()}",
    "date": lambda value, text: value.isoformat() == text,
    "timestamp": lambda value, text: value == datetime.fromisoformat(text),
    "timestamp_ntz": lambda value, text: value == datetime.fromisoformat(text),
}
NORMAL: dict[str, Callable[[str], Any]] = {
    "uuid": uuid.UUID,
    "jsonb": json.loads,
    "inet": ipaddress.ip_interface,
}
"""Columns in which equal texts have one form."""


def is_same(kind: str, column: str, value: Any, text: str) -> bool:
    if kind in SAME:
        return SAME[kind](value, text)
    if kind == "string":
        normal = NORMAL.get(column, str)
        return bool(normal(value) == normal(text))
    if kind in JSON:
        return bool(json.loads(text) == JSON[kind][VALUES[kind].index(value)])
    return Decimal(text) == value


@pytest.mark.parametrize("kind", VALUES)
def test_no_pair_of_types_alters_a_value_in_silence(types: str, kind: str) -> None:
    kept = 0
    for column in fitting_pairs(types, kind):
        sink = PostgresUpsertSink(types, f"p{COLUMNS.index(column)}", key="k", guard=False)
        for value in VALUES[kind]:
            upserter = sink.connect(SinkContext("out", 0, 1, "job"))
            batch = rows_to_batch([(1, value)], schema_of(kind), "a test")
            try:
                upserter.upsert(batch, Order(1, 0, 0))
            except SinkError as error:
                assert_named(str(error))
                continue
            finally:
                upserter.close()
            ((text,),) = asked(types, f"SELECT v::text FROM {table(sink)}")
            is_kept = is_same(kind, column, value, text) if text else value == ""
            assert is_kept, f"{kind} {value!r} became {text!r} in a column of {column}"
            kept += 1
    assert kept >= len(VALUES[kind])


def table(sink: PostgresUpsertSink) -> str:
    return sink.table[-1]


def assert_named(message: str) -> None:
    assert "column 'v'" in message or "column v" in message


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, column) for kind in ALTERING for column in ALTERING[kind]]
)
@pytest.mark.parametrize("sink_class", [PostgresSink, PostgresUpsertSink])
def test_a_column_that_would_round_is_refused_before_the_first_row(
    types: str, kind: str, column: str, sink_class: Any
) -> None:
    asked(types, f"CREATE TABLE t (k int PRIMARY KEY, v {column})")
    batch = rows_to_batch([(1, VALUES[kind][0])], schema_of(kind), "a test")
    shown = rf"column 'v' \({kind.replace('(', '.').replace(')', '.')}\) does not fit"
    with pytest.raises(SinkError, match=rf"{shown} .* would round .* Cast it in the stream"):
        put(sink_class, types, batch)
    assert asked(types, "SELECT count(*) FROM t") == [(0,)]


def put(sink_class: Any, dsn: str, batch: pa.RecordBatch) -> None:
    if sink_class is PostgresSink:
        append(dsn, batch)
    else:
        sink = PostgresUpsertSink(dsn, "t", key=batch.schema.names[0], guard=False)
        sink.connect(SinkContext("out", 0, 1, "job")).upsert(batch, Order(1, 0, 0))


def test_a_scale_below_zero_is_refused_for_whole_numbers_too(types: str) -> None:
    if asked(types, "SELECT to_regtype('hundreds')") == [(None,)]:
        pytest.skip("a server from PostgreSQL 15 on")
    asked(types, "CREATE TABLE t (k int PRIMARY KEY, v hundreds)")
    batch = rows_to_batch([(1, 149)], schema_of("int"), "a test")
    with pytest.raises(SinkError, match=r"'v' \(int\) does not fit .* -2 digits after the point"):
        put(PostgresUpsertSink, types, batch)


@pytest.mark.parametrize(
    ("kind", "column", "keys"),
    [
        ("decimal(10,4)", "numeric(6,2)", [Decimal("1.0010"), Decimal("1.0020")]),
        ("timestamp", "timestamptz(0)", [VALUES["timestamp"][0]] * 2),
        ("string", "char(3)", ["a", "a "]),
        ("string", "bpchar", ["a", "a "]),
        ("string", "varchar(3)", ["abc", "abc "]),
        ("string", "name", ["x" * 63, "x" * 64]),
        ("int", "oid", [-1, 2]),
    ],
)
def test_two_keys_never_become_one(dsn: str, kind: str, column: str, keys: list[Any]) -> None:
    asked(dsn, f"CREATE TABLE t (v {column} PRIMARY KEY)")
    batch = rows_to_batch([(key,) for key in keys], to_schema(f"v {kind}"), "a test")
    with pytest.raises(SinkError, match="column 'v'"):
        put(PostgresUpsertSink, dsn, batch)
    assert asked(dsn, "SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("int", "numeric(4,2)", 12345),
        ("decimal(10,2)", "numeric(4,2)", Decimal("1000.00")),
        ("string", "uuid", "no uuid"),
        ("string", "mood", "neither"),
        ("date", "date", date(9999, 12, 31)),
    ],
)
def test_a_value_that_the_server_refuses_is_an_error_that_names_the_column(
    types: str, kind: str, column: str, value: Any
) -> None:
    check = "CHECK (v < '2000-01-01')" if kind == "date" else ""
    asked(types, f"CREATE TABLE t (k int PRIMARY KEY, v {column} {check})")
    batch = rows_to_batch([(1, value)], schema_of(kind), "a test")
    for sink_class in (PostgresSink, PostgresUpsertSink):
        with pytest.raises(SinkError, match=r"column v|t_v_check"):
            put(sink_class, types, batch)


def test_a_value_that_json_does_not_have_is_an_error_that_names_the_column(dsn: str) -> None:
    batch = rows_to_batch([(1, [float("nan")])], schema_of("array<double>"), "a test")
    with pytest.raises(SinkError, match=r"column 'v': .* JSON"):
        append(dsn, batch)


def test_columns_of_the_guard_that_would_round_are_refused(dsn: str) -> None:
    asked(
        dsn,
        "CREATE TABLE t (k text PRIMARY KEY, _mainstay_attempt bigint, _mainstay_epoch real, "
        "_mainstay_number bigint)",
    )
    sink = PostgresUpsertSink(dsn, "t", key="k")
    sink.recover(recovery(1))
    batch = rows_to_batch([("a",)], to_schema("k string"), "a test")
    with pytest.raises(SinkError, match=r"'_mainstay_epoch' is real.* TYPE bigint"):
        sink.connect(SinkContext("out", 0, 1, "job")).upsert(batch, Order(1, 0, 0))


@pytest.mark.parametrize("value", ["1000", "1.005", "NaN"])
def test_a_number_with_too_many_digits_does_not_fit_what_it_is_read_as(
    dsn: str, value: str
) -> None:
    asked(
        dsn,
        f"CREATE TABLE t (id bigint PRIMARY KEY, m numeric); INSERT INTO t VALUES (1, 1.5), "
        f"(2, '{value}')",
    )
    with pytest.raises(SourceError, match="id = 2 does not fit the schema: column 'm'"):
        read_all(dsn, schema="id long, m decimal(4,2)")
    assert read_all(dsn, schema="id long, m decimal(4,2)", malformed="skip") == [
        (1, Decimal("1.50"))
    ]
