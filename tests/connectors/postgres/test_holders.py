"""A source that waits for transactions of others says for which, and how to end them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.connectors.postgres import PostgresSource, holders
from mainstay.runtime.operators import source as source_operator
from tests.drive.ledger import await_until

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")


@pytest.fixture(autouse=True)
def told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "ASK_AFTER_S", 0.0)
    monkeypatch.setattr(source_operator, "SLOW_S", 0.0)


def start(dsn: str, folder: Path, memory: Memory) -> Any:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="200ms"))
    rows = PostgresSource(dsn, "t", schema="id long", column="id", lag=0, poll=0.05)
    env.source(rows, uid="rows").sink(memory, uid="out")
    return env.start("held up")


def fill(dsn: str, *ids: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute("CREATE TABLE IF NOT EXISTS t (id bigint PRIMARY KEY)")
        for id in ids:
            client.execute("INSERT INTO t VALUES (%s)", [id])


def told(job: Any, part: str) -> str:
    """The problem of the job, once it has the part in it."""

    def named() -> list[str]:
        return [str(problem) for problem in job.problems() if part in str(problem)]

    return await_until(named, f"the job names {part}")[0]


def test_an_open_session_that_holds_a_source_up_is_named(dsn: str, tmp_path: Path) -> None:
    fill(dsn)
    memory = Memory()
    with psycopg.connect(dsn, application_name="a long report") as late:
        late.execute("INSERT INTO t VALUES (1)")
        fill(dsn, 2)
        job = start(dsn, tmp_path, memory)
        pid = late.info.backend_pid
        problem = told(job, f"session {pid} ")
        assert "source 'rows', subtask 0 has not been able to read split 'rows'" in problem
        assert "'a long report', idle in transaction, since 2" in problem
        assert f"SELECT pg_terminate_backend({pid})" in problem
        assert memory.rows() == []
        late.commit()
    await_until(lambda: len(memory.rows()) == 2, "both rows have arrived")
    await_until(lambda: job.problems() == [], "there is no problem any more")
    job.stop()


def test_a_prepared_transaction_that_holds_a_source_up_is_named(dsn: str, tmp_path: Path) -> None:
    fill(dsn)
    memory = Memory()
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        other.execute("PREPARE TRANSACTION 'somebody''s'")
    fill(dsn, 2)
    job = start(dsn, tmp_path, memory)
    problem = told(job, "prepared transaction")
    assert "ROLLBACK PREPARED 'somebody''s'" in problem
    assert ", since 2" in problem
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("ROLLBACK PREPARED 'somebody''s'")
    await_until(lambda: len(memory.rows()) == 1, "the other row has arrived")
    job.stop()


def test_many_transactions_are_counted_and_some_named(dsn: str, tmp_path: Path) -> None:
    fill(dsn)
    with psycopg.connect(dsn, autocommit=True) as other:
        for number in range(holders.MOST_NAMED + 2):
            other.execute("BEGIN")
            other.execute("INSERT INTO t VALUES (%s)", [number])
            other.execute(f"PREPARE TRANSACTION 'of-{number}'")
    fill(dsn, 100)
    job = start(dsn, tmp_path, Memory())
    problem = told(job, "and 2 more")
    assert "'of-0'" in problem
    job.cancel()
