"""What no retry heals is an error at once, and what may heal is waited for: by the real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from mainstay.connectors import Order, SinkContext, UnavailableError
from mainstay.connectors.postgres import PostgresSink, PostgresSource, PostgresUpsertSink
from mainstay.connectors.postgres.refusals import AWAY, FINAL_AMONG
from mainstay.connectors.postgres.session import Server
from mainstay.errors import JobFailedError, SinkError, SourceError
from mainstay.schema import rows_to_batch, to_schema
from tests.connectors.postgres.test_sink import job_into
from tests.connectors.postgres.test_source import orders, read_on
from tests.edges import start
from tests.services.postgres import PostgresServer, asked, name_of
from tests.sinks import recovery, write

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

SCHEMA = to_schema("id long, name string")
ROW = rows_to_batch([(1, "a")], SCHEMA, "a test")


# ---------------------------------------------------------------- every state


def states() -> list[str]:
    """All SQLSTATEs of errors that the driver knows, and one that a trigger makes up."""
    codes = pytest.importorskip("psycopg").errors._sqlcodes
    return sorted({code for code in codes if len(code) == 5 and code[:2] not in ("00", "01", "02")})


def test_every_state_is_either_final_or_away(dsn: str) -> None:
    with Server.checked(dsn, "1min", "a test").connect("a test", SourceError) as session:
        for state in [*states(), "ZZ001"]:
            raised = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"
            is_final = state[:2] not in AWAY or state in FINAL_AMONG
            with pytest.raises(SourceError if is_final else UnavailableError, match="no"):
                session.run(raised)


FINAL = ["22000", "22P02", "23505", "23514", "28000", "42501", "42P01", "54000", "P0001", "ZZ001"]
PASSING = ["08006", "25006", "40001", "40P01", "53100", "53300", "55P03", "57014", "57P01", "58030"]


def appended(dsn: str) -> None:
    sink = PostgresSink(dsn, "t")
    sink.recover(recovery(1))
    write(sink.open(SinkContext("out", 0, 1, "job")), ROW)


def upserted(dsn: str) -> None:
    sink = PostgresUpsertSink(dsn, "t", key="id", guard=False)
    with closing(sink.connect(SinkContext("out", 0, 1, "job"))) as upserter:
        upserter.upsert(ROW, Order(1, 0, 0))


@pytest.mark.parametrize("put", [appended, upserted])
@pytest.mark.parametrize("state", [*FINAL, *PASSING])
def test_a_row_that_a_trigger_refuses(dsn: str, state: str, put: Callable[[str], None]) -> None:
    asked(
        dsn,
        "CREATE TABLE t (id bigint PRIMARY KEY, name text); "
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'told' USING ERRCODE = '{state}'; END $$; "
        "CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    with pytest.raises(SinkError if state in FINAL else UnavailableError, match="told"):
        put(dsn)


# ---------------------------------------------------------------- logins


@pytest.fixture
def logins(server: PostgresServer) -> Iterator[Callable[[str, str], str]]:
    """Gives the connection string of a role and a database."""
    roles = ("needs_password", "is_rejected", "has_no_login", "has_no_place")
    for role in roles:
        asked(server.dsn, f"CREATE ROLE {role} LOGIN PASSWORD 'right'")
    asked(server.dsn, "ALTER ROLE has_no_login NOLOGIN")
    asked(server.dsn, "ALTER ROLE has_no_place CONNECTION LIMIT 0")
    yield lambda user, more: server.dsn.replace("postgres@/postgres?", f"{user}@/{more}")
    for role in roles:
        asked(server.dsn, f"DROP ROLE {role}")


REFUSED_LOGINS = [
    ("needs_password:wrong", "postgres?", "password authentication failed"),
    ("needs_password", "postgres?", "no password supplied"),
    ("is_rejected:right", "postgres?", "pg_hba.conf rejects"),
    ("has_no_login", "postgres?", "not permitted to log in"),
    ("nobody_at_all", "postgres?", "does not exist"),
    ("postgres", "no_such_database?", "does not exist"),
    ("postgres", "postgres?options=-cnonsense%3D1&", "unrecognized configuration parameter"),
    ("postgres", "postgres?sslmode=nonsense&", "invalid sslmode value"),
]


@pytest.mark.parametrize(("user", "more", "message"), REFUSED_LOGINS)
def test_a_login_that_is_refused_is_an_error_at_once(
    logins: Callable[[str, str], str], user: str, more: str, message: str
) -> None:
    dsn = logins(user, more)
    for connect, error in connections(dsn):
        with pytest.raises(error, match=message):
            connect()


def connections(dsn: str) -> list[tuple[Callable[[], Any], type[Exception]]]:
    """Everything that opens a session."""
    upserts = PostgresUpsertSink(dsn, "t", key="id")
    return [
        (lambda: PostgresSink(dsn, "t").recover(recovery(1)), SinkError),
        (lambda: write(PostgresSink(dsn, "t").open(SinkContext("o", 0, 1, "j")), ROW), SinkError),
        (lambda: upserts.recover(recovery(1)), SinkError),
        (
            lambda: upserts.connect(SinkContext("o", 0, 1, "j")).upsert(ROW, Order(1, 0, 0)),
            SinkError,
        ),
        (lambda: orders(dsn).plan(frozenset()), SourceError),
    ]


def test_too_many_connections_are_waited_for(logins: Callable[[str, str], str]) -> None:
    with pytest.raises(UnavailableError, match="too many connections for role"):
        PostgresSink(logins("has_no_place", "postgres?"), "t").recover(recovery(1))


def test_a_password_that_is_right_is_taken(logins: Callable[[str, str], str]) -> None:
    dsn = logins("needs_password:right", "postgres?")
    with Server.checked(dsn, "1min", "a test").connect("a test", SourceError) as session:
        assert session.ask("SELECT current_user::text") == [("needs_password",)]


def test_a_server_that_is_not_there_is_waited_for() -> None:
    dsn = "postgresql://app@127.0.0.1:1/shop"
    with pytest.raises(UnavailableError):
        PostgresSink(dsn, "t").recover(recovery(1))


# ---------------------------------------------------------------- what happens to tables


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("DROP TABLE t", "does not exist"),
        ("ALTER TABLE t DROP COLUMN name", "does not exist"),
        ("ALTER TABLE t RENAME COLUMN id TO number", "does not exist"),
    ],
)
def test_a_table_that_is_altered_under_a_reader_ends_the_attempt(
    dsn: str, change: str, message: str
) -> None:
    asked(dsn, "CREATE TABLE t (id bigint PRIMARY KEY, name text); INSERT INTO t VALUES (1, 'a')")
    source: PostgresSource = orders(dsn)
    (split,) = source.plan(frozenset())
    with closing(source.read(split, None)) as reader:
        while reader.poll(1).batch is None:
            continue
        asked(dsn, "INSERT INTO t VALUES (2, 'b')")
        asked(dsn, change)
        with pytest.raises(SourceError, match=message):
            read_on(reader)


def test_a_job_with_a_row_that_no_retry_heals_fails_and_says_which(dsn: str, tmp_path: Any) -> None:
    asked(dsn, "CREATE TABLE t (id bigint CHECK (id < 100), k bigint)")
    job = start(job_into(PostgresSink(dsn, "t")), tmp_path, name=name_of(dsn), max_failures=1)
    with pytest.raises(JobFailedError, match="t_id_check"):
        job.wait(60)
