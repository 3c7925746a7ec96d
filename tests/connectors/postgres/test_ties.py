"""Keyset reading by two columns: every row once, however few are fetched at a time."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.connectors.postgres import PostgresSource
from mainstay.errors import SourceError
from tests.connectors.postgres.test_source import POLL_S, only, read_on
from tests.services.postgres import PostgresServer, asked

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]


def source_of(dsn: str, **more: Any) -> PostgresSource:
    given = {"schema": "a int, b string", "column": "a", "tie": "b", "lag": 0, "poll": POLL_S}
    return PostgresSource(dsn, "t", **{**given, **more})


TIES = {
    "text": st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "double precision": st.floats(allow_nan=False).map(repr),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    "timestamptz": st.datetimes().map(lambda at: f"{at.isoformat()}+00"),
    "bytea": st.binary(max_size=3).map(lambda data: f"\\x{data.hex()}"),
}


@pytest.mark.parametrize("kind", TIES)
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_rows_are_those_of_a_plain_select_whatever_the_batch_size(
    server: PostgresServer, kind: str, data: st.DataObject
) -> None:
    """Also where the offset of every batch goes through a snapshot."""
    rows = data.draw(st.sets(st.tuples(st.integers(0, 2), TIES[kind]), max_size=12))
    rows |= {(1, tie) for _, tie in rows}
    dsn = server.schema()
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute(f"CREATE TABLE t (a int, b {kind} NOT NULL, UNIQUE (a, b))")
        insert = "INSERT INTO t VALUES (%s, %s) ON CONFLICT DO NOTHING"
        for row in rows:
            client.execute(insert, row)
        client.execute("SET extra_float_digits = 1; SET TimeZone = 'UTC'")
        expected = client.execute("SELECT a, b::text FROM t ORDER BY t.a, t.b").fetchall()
    source = source_of(dsn)
    for size in (1, 2, 3, 1000):
        with closing(only(source)) as reader:
            found, _ = read_on(reader, size)
        assert found == expected, f"with batches of {size}"
        assert resumed(source, size) == expected


def resumed(source: PostgresSource, size: int) -> list[tuple[Any, ...]]:
    """The rows, each batch by a reader of its own."""
    rows, offset = [], None
    while True:
        with closing(only(source, offset)) as reader:
            (batch, offset) = first_batch(reader, size)
        if not batch:
            return rows
        rows += batch


def first_batch(reader: Any, size: int) -> tuple[list[tuple[Any, ...]], Any]:
    polled = reader.poll(size)
    while polled.batch is None and polled.ready_in_s != POLL_S:
        polled = reader.poll(size)
    if polled.batch is None:
        return [], polled.offset
    return [tuple(row.values()) for row in polled.batch.to_pylist()], polled.offset


NULLABLE = "CREATE TABLE t (a int, b text, UNIQUE (a, b))"
REMEDY = r"tie='b' may be null.* ALTER COLUMN \"b\" SET NOT NULL"


@pytest.mark.parametrize("splits", [1, 3])
def test_a_tie_that_may_be_null_is_refused_when_it_is_planned(dsn: str, splits: int) -> None:
    asked(dsn, f"{NULLABLE}; INSERT INTO t VALUES (1, NULL), (1, 'x'), (2, NULL)")
    with pytest.raises(SourceError, match=REMEDY):
        source_of(dsn, splits=splits).plan(frozenset())


def test_a_job_that_goes_on_is_refused_a_tie_that_may_be_null_too(dsn: str) -> None:
    asked(dsn, "CREATE TABLE t (a int, b text NOT NULL, UNIQUE (a, b))")
    source = source_of(dsn)
    (split,) = source.plan(frozenset())
    asked(dsn, "ALTER TABLE t ALTER COLUMN b DROP NOT NULL")
    with (
        closing(source.read(split, ["1", "x"])) as reader,
        pytest.raises(SourceError, match=REMEDY),
    ):
        reader.poll(10)


def test_a_tie_of_a_domain_that_forbids_null_is_taken(dsn: str) -> None:
    asked(dsn, "CREATE DOMAIN word AS text NOT NULL; CREATE TABLE t (a int, b word, UNIQUE (a, b))")
    asked(dsn, "INSERT INTO t VALUES (1, 'y'), (1, 'x')")
    assert resumed(source_of(dsn), 1) == [(1, "x"), (1, "y")]


def test_a_column_that_is_gone_ends_the_attempt(dsn: str) -> None:
    asked(dsn, "CREATE TABLE t (a int, b text NOT NULL, UNIQUE (a, b))")
    source = source_of(dsn, schema="a int")
    (split,) = source.plan(frozenset())
    asked(dsn, "ALTER TABLE t DROP COLUMN b")
    with closing(source.read(split, None)) as reader, pytest.raises(SourceError, match="'b' any"):
        reader.poll(10)
