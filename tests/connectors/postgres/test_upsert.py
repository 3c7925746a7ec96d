"""PostgresUpsertSink and a real server: the newest row of every key, whoever writes late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors import Order, SinkContext, SinkRecovery
from mainstay.connectors.bases.idempotent import Upserter
from mainstay.connectors.postgres.upsert import PostgresUpsertSink
from mainstay.errors import GraphError, SinkError
from mainstay.schema import rows_to_batch, to_schema
from tests.drive.ledger import KEYS, PATIENCE_S, Ids, await_until, complete_epochs
from tests.edges import WRITE_POINTS, Crashing, kill_workers, start
from tests.services.postgres import PostgresServer, asked, name_of
from tests.sinks import recovery

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

SCHEMA = to_schema("k string, v long")


def rows_in(dsn: str) -> dict[str, int]:
    return dict(asked(dsn, "SELECT k, v FROM t"))


def batch(*rows: tuple[Any, Any]) -> pa.RecordBatch:
    return rows_to_batch(rows, SCHEMA, "a test")


def admitted(sink: PostgresUpsertSink, attempt: int) -> Upserter:
    sink.recover(recovery(attempt))
    return sink.connect(SinkContext("out", 0, attempt, "job"))


def sink_of(dsn: str, **more: Any) -> PostgresUpsertSink:
    return PostgresUpsertSink(dsn, "t", key="k", create=True, **more)


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("guard", [True, False])
def test_a_key_has_its_last_row(dsn: str, guard: bool) -> None:
    upserter = admitted(sink_of(dsn, guard=guard), 1)
    upserter.upsert(batch(("a", 1), ("b", 2), ("a", 3)), Order(1, 0, 0))
    assert rows_in(dsn) == {"a": 3, "b": 2}
    upserter.upsert(batch(("b", 4), ("c", 5)), Order(1, 0, 3))
    assert rows_in(dsn) == {"a": 3, "b": 4, "c": 5}


def test_what_is_written_again_changes_nothing(dsn: str) -> None:
    upserter = admitted(sink_of(dsn), 1)
    upserter.upsert(batch(("a", 1)), Order(1, 0, 0))
    upserter.upsert(batch(("a", 2)), Order(1, 0, 1))
    upserter.upsert(batch(("a", 1)), Order(1, 0, 0))
    assert rows_in(dsn) == {"a": 2}


def test_an_older_attempt_replaces_nothing(dsn: str) -> None:
    sink = sink_of(dsn)
    zombie = admitted(sink, 1)
    zombie.upsert(batch(("a", 1)), Order(1, 9, 90))
    newer = admitted(sink, 2)
    newer.upsert(batch(("a", 2)), Order(2, 0, 0))
    with pytest.raises(ConnectionError):
        zombie.upsert(batch(("a", 1)), Order(1, 9, 91))
    assert rows_in(dsn) == {"a": 2}


def test_the_guard_alone_keeps_an_older_attempt_off(dsn: str) -> None:
    zombie = admitted(sink_of(dsn), 1)
    zombie.upsert(batch(("a", 1)), Order(1, 9, 90))
    asked(dsn, "UPDATE t SET v = 2, _mainstay_attempt = _mainstay_attempt + 1, _mainstay_epoch = 0")
    zombie.upsert(batch(("a", 1), ("b", 1)), Order(1, 9, 91))
    assert rows_in(dsn) == {"a": 2, "b": 1}


def test_a_job_that_is_begun_anew_replaces_the_rows_of_the_old_one(dsn: str) -> None:
    old = admitted(sink_of(dsn), 5)
    old.upsert(batch(("a", 1)), Order(5, 100, 1000))
    asked(dsn, "DELETE FROM mainstay_fence")
    new = admitted(sink_of(dsn), 1)
    new.upsert(batch(("a", 2)), Order(1, 0, 0))
    assert rows_in(dsn) == {"a": 2}


def test_a_job_that_was_forked_replaces_the_rows_of_the_first(dsn: str) -> None:
    first = admitted(sink_of(dsn), 5)
    first.upsert(batch(("a", 1)), Order(5, 100, 1000))
    sink = sink_of(dsn)
    sink.recover(SinkRecovery("out", "job-fork", 1, ()))
    fork = sink.connect(SinkContext("out", 0, 1, "job-fork"))
    fork.upsert(batch(("a", 2)), Order(1, 0, 0))
    assert rows_in(dsn) == {"a": 2}


def test_rows_that_were_there_before_are_replaced(dsn: str) -> None:
    asked(
        dsn,
        "CREATE TABLE t (k text PRIMARY KEY, v bigint, _mainstay_attempt bigint, "
        "_mainstay_epoch bigint, _mainstay_number bigint); INSERT INTO t VALUES ('a', 1)",
    )
    admitted(sink_of(dsn), 1).upsert(batch(("a", 2)), Order(1, 0, 0))
    assert rows_in(dsn) == {"a": 2}


def test_a_key_of_several_columns_in_another_schema(dsn: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    name = psycopg.conninfo.conninfo_to_dict(dsn)["options"].rpartition("=")[2]
    sink = PostgresUpsertSink(dsn, f"{name}.u", key=("a", "b"), create=True)
    schema = to_schema("a long, b string, v long")
    rows = [(1, "x", 1), (1, "y", 2), (1, "x", 3)]
    admitted(sink, 1).upsert(rows_to_batch(rows, schema, "a test"), Order(1, 0, 0))
    assert asked(dsn, "SELECT a, b, v FROM u ORDER BY b") == [(1, "x", 3), (1, "y", 2)]


def test_keys_that_only_the_server_takes_for_one_are_one(dsn: str) -> None:
    asked(dsn, "CREATE TABLE t (k numeric PRIMARY KEY, v bigint)")
    sink = PostgresUpsertSink(dsn, "t", key="k", guard=False)
    schema = to_schema("k decimal(4,1), v long")
    from decimal import Decimal

    rows = [(Decimal("1.0"), 1), (Decimal("1.0"), 2)]
    admitted(sink, 1).upsert(rows_to_batch(rows, schema, "a test"), Order(1, 0, 0))
    assert asked(dsn, "SELECT v FROM t") == [(2,)]


def test_a_table_of_nothing_but_its_key(dsn: str) -> None:
    sink = PostgresUpsertSink(dsn, "t", key="k", create=True, guard=False)
    rows = rows_to_batch([("a",), ("a",)], to_schema("k string"), "a test")
    upserter = admitted(sink, 1)
    upserter.upsert(rows, Order(1, 0, 0))
    upserter.upsert(rows, Order(1, 0, 2))
    assert asked(dsn, "SELECT k FROM t") == [("a",)]


def test_a_broken_session_is_replaced(dsn: str) -> None:
    upserter = admitted(sink_of(dsn), 1)
    upserter.upsert(batch(("a", 1)), Order(1, 0, 0))
    asked(
        dsn,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'mainstay%' AND pid <> pg_backend_pid()",
    )
    with pytest.raises(ConnectionError):
        upserter.upsert(batch(("a", 2)), Order(1, 0, 1))
    upserter.upsert(batch(("a", 2)), Order(1, 0, 1))
    assert rows_in(dsn) == {"a": 2}


def test_nothing_is_needed_of_the_database_without_the_guard(dsn: str) -> None:
    admitted(sink_of(dsn, guard=False), 1).upsert(batch(("a", 1)), Order(1, 0, 0))
    assert asked(dsn, "SELECT to_regclass('mainstay_fence')") == [(None,)]
    assert asked(dsn, "SELECT * FROM t") == [("a", 1)]


# ---------------------------------------------------------------- what is wrong is said


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("k text PRIMARY KEY, v bigint", "ALTER TABLE .* ADD COLUMN _mainstay_attempt bigint"),
        (
            "k text, v bigint, _mainstay_attempt bigint, _mainstay_epoch bigint, "
            "_mainstay_number bigint",
            "CREATE UNIQUE INDEX",
        ),
        ("k text PRIMARY KEY, v text", r"column 'v' \(long\) does not fit"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(dsn: str, definition: str, message: str) -> None:
    asked(dsn, f"CREATE TABLE t ({definition})")
    with pytest.raises(SinkError, match=message):
        admitted(sink_of(dsn), 1).upsert(batch(("a", 1)), Order(1, 0, 0))


def test_a_key_that_is_null_is_refused(dsn: str) -> None:
    with pytest.raises(SinkError, match="null for the key column 'k'"):
        admitted(sink_of(dsn), 1).upsert(batch((None, 1)), Order(1, 0, 0))


def test_a_key_that_is_not_in_the_stream_is_refused(dsn: str) -> None:
    sink = PostgresUpsertSink(dsn, "t", key="nope", create=True)
    with pytest.raises(SinkError, match="'nope' is not in the stream"):
        admitted(sink, 1).upsert(batch(("a", 1)), Order(1, 0, 0))


@pytest.mark.parametrize("key", ["", (), ("a", "a"), ("_mainstay_epoch",)])
def test_wrong_keys_are_refused_at_once(key: Any) -> None:
    with pytest.raises(GraphError):
        PostgresUpsertSink("dbname=x", "t", key=key)


# ---------------------------------------------------------------- jobs

COUNT = 2_000


def job_into(sink: Any, count: int = COUNT) -> Any:
    def build(env: Any) -> None:
        ids = env.source(Ids(count, 1_000.0, splits=1), uid="ids", parallelism=1)
        ids.key_by("k").sink(sink, uid="out")

    return build


def upserts(dsn: str) -> PostgresUpsertSink:
    return PostgresUpsertSink(dsn, "t", key="k", create=True)


def check(dsn: str, count: int = COUNT) -> None:
    """Every key has the row that a plain loop would leave."""
    expected = {id % KEYS: id for id in range(count)}
    assert dict(asked(dsn, "SELECT k, id FROM t")) == expected


@pytest.mark.parametrize(
    "point", [*WRITE_POINTS, "before_pre_commit", "between_pre_commit_and_slot"]
)
def test_after_a_crash_every_key_has_its_last_row(dsn: str, tmp_path: Path, point: str) -> None:
    sink = Crashing(upserts(dsn), point, tmp_path / "crashed")
    job = start(job_into(sink), tmp_path, name=name_of(dsn))
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    check(dsn)


def test_after_a_kill_every_key_has_its_last_row(dsn: str, tmp_path: Path) -> None:
    kill_in_a_run(dsn, tmp_path, seed=1, kills=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_after_many_kills_every_key_has_its_last_row(dsn: str, tmp_path: Path, seed: int) -> None:
    kill_in_a_run(dsn, tmp_path, seed, kills=4)


def kill_in_a_run(dsn: str, tmp_path: Path, seed: int, kills: int) -> None:
    count = 1_500 * (kills + 1)
    job = start(
        job_into(upserts(dsn), count),
        tmp_path,
        name=name_of(dsn),
        drive="processes",
        max_failures=kills + 2,
    )
    kill_workers(job, kills, seed)
    assert job.wait(2 * PATIENCE_S) == "finished"
    check(dsn, count)


def test_a_server_that_is_away_for_a_while_is_waited_for(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    count = 4_000
    job = start(job_into(upserts(dsn), count), tmp_path, name=name_of(dsn))
    await_until(lambda: complete_epochs(job) >= 2, "two epochs are complete")
    server.stop("immediate")
    try:
        problem = await_until(job.problems, "the job says what it waits for")[0]
        assert "sink 'out'" in str(problem)
    finally:
        server.start()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    check(dsn, count)
