"""Tables of PostgreSQL of any name, and rows by their keys."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors.postgres import PostgresSink, PostgresSource, PostgresUpsertSink
from mainstay.errors import MainstayError, SinkError
from tests.roundtrips import kinds
from tests.roundtrips.carrying import committed, read
from tests.roundtrips.kinds import Table
from tests.roundtrips.sameness import arrow_rows, exact, rows_of
from tests.roundtrips.test_postgres import held, named, numbered, seen
from tests.services.postgres import asked

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

# ---------------------------------------------------------------- rows by their keys


@pytest.mark.parametrize("guard", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_every_listed_value_replaces_that_of_an_older_row(dsn: str, guard: bool) -> None:
    table = kinds.wide([held(table) for table in kinds.catalogue()])
    rows, name = numbered(table), named()
    older = numbered(Table(table.schema, tuple(values[::-1] for values in table.columns)))
    for batch in (older.batch, rows.batch):
        sink = PostgresUpsertSink(dsn, (name,), key="n ", create=True, guard=guard)
        committed(sink, batch)
    assert seen(dsn, name, rows.schema) == rows_of(rows.rows, rows.schema)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind == pa.string() else pytest.mark.soak, id=str(kind))
        for kind in kinds.LEAVES
    ],
)
def test_a_row_is_found_by_a_key_of_any_value(dsn: str, kind: pa.DataType) -> None:
    """The two zeros are one key of the server; so only one is tried."""
    values = [v for v in kinds.edges_of(kind) if not (v == 0 and exact(v) == exact(-0.0))]
    keys = [value for (value,) in held(kinds.one_column(kind, *values)).rows]
    schema = pa.schema([pa.field("n ", pa.int64()), pa.field("k'\"", kind)])
    name, count = named(), len(keys)
    for first in (0, count, 2 * count):
        # Twice in one batch, then again in another.
        rows = Table(schema, ((*range(first, first + count), *range(-count, 0)), (*keys, *keys)))
        if first == count:
            rows = Table(schema, (tuple(range(first, first + count)), tuple(keys)))
        committed(PostgresUpsertSink(dsn, (name,), key="k'\"", create=True), rows.batch)
    expected = Table(schema, (tuple(range(-count, 0)), tuple(keys)))
    assert seen(dsn, name, schema) == rows_of(expected.rows, schema)


# ---------------------------------------------------------------- names

LONGEST = ["x" * 63, "ä" * 31, "👍" * 15]
TABLES = [*kinds.NAMES, *LONGEST]
ROWS = numbered(kinds.one_column(pa.string(), "a", None, "", name="w"))


def check_named(dsn: str, schema: str, name: str) -> None:
    import psycopg
    from psycopg.sql import SQL, Identifier

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    place, keyed = (schema, name), (schema, f"{name[:14]} 2")
    committed(PostgresSink(dsn, place, create=True), ROWS.batch)
    committed(PostgresSink(dsn, place, create=True), ROWS.batch.slice(0, 0))
    committed(PostgresUpsertSink(dsn, keyed, key="n ", create=True), ROWS.batch)
    expected = rows_of(ROWS.rows, ROWS.schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            SQL("CREATE UNIQUE INDEX ON {} ({})").format(Identifier(*place), Identifier("n "))
        )
    for each in (place, keyed):
        assert seen(dsn, each, ROWS.schema) == expected
        source = PostgresSource(dsn, each, schema=ROWS.schema, column="n ", bounded=True, lag=0)
        assert arrow_rows(read(source), ROWS.schema) == expected


def pairs_of_names() -> list[Any]:
    """Each name as that of a schema, and of a table; the suite has one pair."""
    pairs = list(zip(TABLES, [*TABLES[7:], *TABLES[:7]], strict=True))
    return [pytest.param(*p, marks=() if p[0] == LONGEST[1] else pytest.mark.soak) for p in pairs]


@pytest.fixture
def own_dsn(dsn: str) -> Any:
    """A database of its own: schemas are known in all of one."""
    import psycopg

    name = named()
    asked(dsn, f"CREATE DATABASE {name}")
    yield psycopg.conninfo.make_conninfo(dsn, dbname=name, options="")
    asked(dsn, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(("schema", "name"), pairs_of_names())
def test_tables_and_schemas_have_any_name(own_dsn: str, schema: str, name: str) -> None:
    check_named(own_dsn, schema, name)


NO_NAMES = ["x" * 64, "ä" * 32, "a\0b"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_table_that_no_server_can_name_is_refused_at_once(dsn: str, name: str) -> None:
    for place in ((name,), (name, "t"), ("s", name)):
        for make in (
            lambda place: PostgresSink(dsn, place, create=True),
            lambda place: PostgresUpsertSink(dsn, place, key="n ", create=True),
            lambda place: PostgresSource(dsn, place, schema=ROWS.schema, column="n "),
        ):
            with pytest.raises(MainstayError, match=r"after 63|zero byte"):
                make(place)


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_column_that_no_server_can_name_is_refused_before_a_table_is_made(
    dsn: str, name: str
) -> None:
    rows = numbered(kinds.one_column(pa.int64(), 1, name=name))
    sinks = (
        PostgresSink(dsn, "t", create=True),
        PostgresUpsertSink(dsn, "t", key="n ", create=True),
    )
    for sink in sinks:
        with pytest.raises(SinkError, match=r"after 63|zero byte"):
            committed(sink, rows.batch)
    assert asked(dsn, "SELECT to_regclass('t')") == [(None,)]


def test_the_two_zeros_and_not_a_number_are_keys_as_the_server_compares_them(dsn: str) -> None:
    schema = pa.schema([pa.field("n ", pa.int64()), pa.field("k", pa.float64())])
    rows = Table(schema, ((1, 2, 3, 4), (0.0, -0.0, math.nan, -math.nan)))
    name = named()
    committed(PostgresUpsertSink(dsn, (name,), key="k", create=True), rows.batch)
    assert [number for number, _ in asked(dsn, f'SELECT "n ", k FROM {name} ORDER BY 1')] == [2, 4]
