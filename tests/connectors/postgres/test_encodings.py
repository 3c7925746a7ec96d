"""Texts, whatever encoding the database or the client's environment has."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import Order, SinkContext
from mainstay.connectors.postgres import (
    PostgresSink,
    PostgresSource,
    PostgresUpsertSink,
    read_schema,
)
from mainstay.errors import SinkError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from tests.connectors.postgres.test_source import POLL_S, only, read_on
from tests.services.postgres import PostgresServer, asked
from tests.sinks import prepare, recovery, write

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

SCHEMA = to_schema("id long, other string, name string")
WORD = "Grüße, čau"
LATIN = "Grüße"


@pytest.fixture
def database(server: PostgresServer, request: Any) -> Iterator[str]:
    """The connection string of a database with an encoding of its own."""
    name = f"d_{uuid.uuid4().hex[:12]}"
    made = f"CREATE DATABASE {name} ENCODING '{request.param}' TEMPLATE template0 LOCALE 'C'"
    asked(server.dsn, made)
    yield server.dsn.replace("/postgres?", f"/{name}?")
    asked(server.dsn, f"DROP DATABASE {name} WITH (FORCE)")


def rows(*names: str) -> pa.RecordBatch:
    return rows_to_batch([(n, "x", name) for n, name in enumerate(names)], SCHEMA, "a test")


def append(dsn: str, batch: pa.RecordBatch) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    sink.recover(recovery(1))
    writer = sink.open(SinkContext("out", 0, 1, "job"))
    write(writer, batch)
    sink.commit([prepare(writer, 1) or b""])


def upsert(dsn: str, batch: pa.RecordBatch) -> None:
    sink = PostgresUpsertSink(dsn, "t", key="id", create=True)
    sink.recover(recovery(1))
    with closing(sink.connect(SinkContext("out", 0, 1, "job"))) as upserter:
        upserter.upsert(batch, Order(1, 0, 0))


def source_of(dsn: str, **more: Any) -> PostgresSource:
    settings = {"schema": "id long, name string", "column": "id", "lag": 0, "poll": POLL_S}
    return PostgresSource(dsn, "t", **{**settings, **more})


def read_all(dsn: str, **more: Any) -> list[tuple[Any, ...]]:
    with closing(only(source_of(dsn, **more))) as reader:
        return read_on(reader)[0]


def unique(dsn: str) -> None:
    asked(dsn, "CREATE UNIQUE INDEX ON t (id)")


def seen(dsn: str) -> list[Any]:
    """What an independent client sees, by the characters' numbers."""
    joined = "&" if "?" in dsn else "?"
    bytes_seen = asked(f"{dsn}{joined}client_encoding=utf8", "SELECT name FROM t ORDER BY id")
    return [name.decode() if isinstance(name, bytes) else name for (name,) in bytes_seen]


WRITERS = [append, upsert]


# ---------------------------------------------------------------- the client's encoding


@pytest.mark.parametrize("put", WRITERS)
@pytest.mark.parametrize("how", ["dsn", "environment", "options"])
def test_a_client_encoding_of_others_changes_no_text(
    dsn: str, monkeypatch: pytest.MonkeyPatch, put: Any, how: str
) -> None:
    given = dsn
    if how == "dsn":
        given = f"{dsn}&client_encoding=latin1"
    elif how == "options":
        given = f"{dsn}%20-cclient_encoding%3Dlatin1"
    else:
        monkeypatch.setitem(os.environ, "PGCLIENTENCODING", "LATIN1")
    put(given, rows(WORD))
    monkeypatch.delitem(os.environ, "PGCLIENTENCODING", raising=False)
    assert seen(dsn) == [WORD]
    if put is append:
        unique(dsn)
    assert read_all(given) == [(0, WORD)]


# ---------------------------------------------------------------- the database's encoding


@pytest.mark.parametrize("put", WRITERS)
@pytest.mark.parametrize("database", ["LATIN1", "SQL_ASCII", "UTF8"], indirect=True)
def test_text_that_a_database_can_hold_is_held_as_it_is(database: str, put: Any) -> None:
    put(database, rows(LATIN))
    ((length,),) = asked(database, "SELECT octet_length(name) FROM t")
    assert length == (5 if "LATIN1" in str(asked(database, "SHOW server_encoding")) else 7)
    assert seen(database) == [LATIN]
    if put is append:
        unique(database)
    assert read_all(database) == [(0, LATIN)]


@pytest.mark.parametrize("put", WRITERS)
@pytest.mark.parametrize("database", ["LATIN1"], indirect=True)
def test_text_that_a_database_cannot_hold_is_an_error_that_names_the_column(
    database: str, put: Any
) -> None:
    with pytest.raises(SinkError, match=r"column 'name' .* 'č' \(U\+010D\).* LATIN1 cannot hold"):
        put(database, rows(LATIN, WORD))


@pytest.mark.parametrize("put", WRITERS)
@pytest.mark.parametrize("database", ["LATIN1"], indirect=True)
def test_json_that_a_database_cannot_hold_is_an_error_that_names_the_column(
    database: str, put: Any
) -> None:
    batch = rows_to_batch([(1, ["č"])], to_schema("id long, tags array<string>"), "a test")
    with pytest.raises(SinkError, match=r"column 'tags' .* 'č'"):
        put(database, batch)


@pytest.mark.parametrize("put", WRITERS)
@pytest.mark.parametrize("database", ["LATIN1", "SQL_ASCII", "UTF8"], indirect=True)
def test_a_zero_byte_is_an_error_that_names_the_column(database: str, put: Any) -> None:
    with pytest.raises(SinkError, match="column 'name' has a text with a zero byte"):
        put(database, rows("a\0b"))


# ---------------------------------------------------------------- databases without an encoding


def with_stray_bytes(database: str) -> None:
    asked(database, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    asked(database, "INSERT INTO t VALUES (1, 'a'), (2, E'\\xe9'), (3, 'c \"q\"'), (4, NULL)")


@pytest.mark.parametrize("database", ["SQL_ASCII"], indirect=True)
def test_bytes_that_are_no_utf8_are_a_row_that_does_not_fit(database: str) -> None:
    with_stray_bytes(database)
    with pytest.raises(SourceError, match=r"id = 2 does not fit the schema: column 'name'"):
        read_all(database)
    rest = [(1, "a"), (3, 'c "q"'), (4, None)]
    assert read_all(database, malformed="skip") == rest
    sided = read_all(database, malformed="side")
    assert [row[:2] for row in sided] == [rest[0], (None, None), *rest[1:]]
    assert b"\xe9" in sided[1][2].raw


@pytest.mark.parametrize("database", ["SQL_ASCII"], indirect=True)
def test_a_tie_that_is_no_utf8_is_refused_as_an_offset(database: str) -> None:
    asked(database, "CREATE TABLE t (id bigint, name text NOT NULL, UNIQUE (id, name))")
    asked(database, "INSERT INTO t VALUES (1, E'\\xe9')")
    with pytest.raises(SourceError, match="tie='name' are no UTF-8"):
        read_all(database, schema="id long", tie="name")


@pytest.mark.parametrize("database", ["LATIN1", "SQL_ASCII"], indirect=True)
def test_names_of_columns_and_ties_are_texts_too(database: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(f"{database}&client_encoding=utf8", autocommit=True) as client:
        client.execute('CREATE TABLE t (id bigint, "größe" text NOT NULL, UNIQUE (id, "größe"))')
        client.execute("INSERT INTO t VALUES (1, 'ä'), (1, 'ö'), (1, 'ü')")
    assert read_schema(database, "t").names == ["id", "größe"]
    source = source_of(database, schema="id long, größe string", tie="größe")
    with closing(only(source)) as reader:
        assert read_on(reader, 1)[0] == [(1, "ä"), (1, "ö"), (1, "ü")]
