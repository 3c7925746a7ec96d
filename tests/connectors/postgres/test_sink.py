"""PostgresSink and a real server: transactions, crashes at every edge, zombies, outages."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import SinkContext, SinkRecovery, SinkWriter
from mainstay.connectors.bases.transactions import TransactionId, owner_of
from mainstay.connectors.postgres.sink import KEPT, PRUNE_EVERY, PostgresSink
from mainstay.errors import FencedError, GraphError, RestoreError, SinkError
from mainstay.schema import rows_to_batch, to_schema
from tests.drive.ledger import PATIENCE_S, Ids, await_until, complete_epochs
from tests.edges import CRASH_POINTS, Crashing, kill_workers, start
from tests.services.postgres import PostgresServer, ServiceMissing, asked, name_of
from tests.sinks import prepare, recovery, write

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

SCHEMA = to_schema("id long, name string")


def prepared_names(dsn: str) -> list[str]:
    return [name for (name,) in asked(dsn, "SELECT gid FROM pg_prepared_xacts ORDER BY gid")]


def ids_in(dsn: str) -> list[int]:
    return sorted(id for (id,) in asked(dsn, "SELECT id FROM t"))


def batch(*ids: int) -> pa.RecordBatch:
    return rows_to_batch([(id, f"n{id}") for id in ids], SCHEMA, "a test")


def begun(sink: PostgresSink, attempt: int, *handles: bytes) -> SinkWriter:
    """A writer of an attempt that was admitted."""
    sink.recover(recovery(attempt, *handles))
    return opened(sink, attempt)


def opened(sink: PostgresSink, attempt: int, subtask: int = 0) -> SinkWriter:
    return sink.open(SinkContext("out", subtask, attempt, "job"))


def prepared(writer: SinkWriter, epoch: int, *ids: int) -> bytes:
    write(writer, batch(*ids))
    handle = prepare(writer, epoch)
    assert handle is not None
    return handle


# ---------------------------------------------------------------- writing and committing


def test_rows_are_seen_once_they_are_committed_and_not_before(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    writer = begun(sink, 1)
    handle = prepared(writer, 1, 1, 2)
    assert ids_in(dsn) == []
    assert json.loads(handle)["name"] in prepared_names(dsn)
    sink.commit([handle])
    assert ids_in(dsn) == [1, 2]
    assert prepared_names(dsn) == []


def test_committing_twice_is_committing_once(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    handle = prepared(begun(sink, 1), 1, 1, 2)
    sink.commit([handle])
    sink.commit([handle])
    assert ids_in(dsn) == [1, 2]


def test_a_transaction_that_somebody_rolled_back_is_an_error_and_not_a_success(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    handle = prepared(begun(sink, 1), 1, 1)
    asked(dsn, f"ROLLBACK PREPARED '{json.loads(handle)['name']}'")
    with pytest.raises(SinkError, match="neither prepared nor committed"):
        sink.commit([handle])


def test_another_subtask_of_another_process_can_commit(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    handle = prepared(begun(sink, 1), 1, 5)
    pickle.loads(pickle.dumps(sink)).commit([handle])
    assert ids_in(dsn) == [5]


def test_every_type_arrives_as_it_was(dsn: str) -> None:
    schema = to_schema(
        "b boolean, y byte, s short, i int, l long, f float, d double, m decimal(10,2), "
        "t string, x binary, day date, at timestamp, local timestamp_ntz, "
        "tags array<string>, props map<string,int>, point struct<a:int,b:string>"
    )
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=timezone.utc)
    row = (
        *(True, 1, 2, 3, 2**62, 1.5, 1e-300, Decimal("12.50"), 'a "b"\n,\\.\t', b"\x00\xff"),
        *(date(2024, 5, 1), at, at.replace(tzinfo=None), ["a", None], {"k": 1}, (7, "p")),
    )
    empty = (None,) * 8 + ("",) + (None,) * 7
    sink = PostgresSink(dsn, "t", create=True)
    writer = begun(sink, 1)
    write(writer, rows_to_batch([row, empty], schema, "a test"))
    handle = prepare(writer, 1)
    assert handle is not None
    sink.commit([handle])
    first, second = asked(dsn, "SELECT * FROM t ORDER BY b")
    assert first == (*row[:13], ["a", None], {"k": 1}, {"a": 7, "b": "p"})
    assert second == empty


def test_nulls_of_a_table_with_one_column_are_rows(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    writer = begun(sink, 1)
    rows = [(None,), ("",), ("x",)]
    write(writer, rows_to_batch(rows, to_schema("name string"), "a test"))
    sink.commit([prepare(writer, 1) or b""])
    assert asked(dsn, "SELECT name FROM t ORDER BY name NULLS FIRST") == rows


def test_the_ledger_forgets_what_no_snapshot_can_name(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    handle = prepared(begun(sink, 1), 1, 1)
    sink.commit([handle])
    id = TransactionId.parse(json.loads(handle)["name"])
    assert id is not None
    last = KEPT + PRUNE_EVERY
    asked(
        dsn,
        "INSERT INTO mainstay_ledger (owner, term, subtask, number, rows) "
        f"SELECT owner, term, subtask, n, 1 FROM mainstay_ledger, generate_series(2, {last}) AS n",
    )
    name = TransactionId(id.owner, id.attempt, id.subtask, last)
    sink.commit([json.dumps({"format": 1, "name": str(name)}).encode()])
    assert asked(dsn, "SELECT min(number), max(number) FROM mainstay_ledger") == [
        (PRUNE_EVERY, last)
    ]


# ---------------------------------------------------------------- attempts


def test_what_no_snapshot_names_is_rolled_back_and_what_one_names_is_not(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    writer = begun(sink, 1)
    named, orphan = prepared(writer, 1, 1), prepared(writer, 2, 2)
    sink.recover(recovery(2, named))
    assert prepared_names(dsn) == [json.loads(named)["name"]]
    sink.commit([named])
    with pytest.raises(SinkError, match="neither prepared nor committed"):
        sink.commit([orphan])
    assert ids_in(dsn) == [1]


def test_the_transactions_of_another_sink_are_left_alone(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    sink.recover(SinkRecovery("other", "job", 1, ()))
    writer = sink.open(SinkContext("other", 0, 1, "job"))
    theirs = prepared(writer, 1, 9)
    sink.recover(recovery(7))
    sink.commit([theirs])
    assert ids_in(dsn) == [9]


def test_an_older_attempt_can_neither_go_on_nor_prepare(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    zombie = begun(sink, 1)
    write(zombie, batch(1))
    sink.recover(recovery(2))
    with pytest.raises(ConnectionError):
        prepare(zombie, 1)
    with pytest.raises(FencedError, match="attempt 2"):
        prepare(zombie, 1) if zombie.prepare(1) is not None else write(zombie, batch(1))
    assert prepared_names(dsn) == []


def test_one_that_had_passed_the_fence_before_it_was_raised_cannot_prepare(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    sink.recover(recovery(1))
    zombie = sink.begin(TransactionId(owner_of("job", "out"), 1, 0, 1))
    sink.write(zombie, batch(1))
    sink._write_down(zombie)
    sink.recover(recovery(2))
    with pytest.raises(ConnectionError):
        zombie.session.prepare(str(zombie.id))
    assert prepared_names(dsn) == []
    assert asked(dsn, "SELECT count(*) FROM mainstay_ledger") == [(0,)]


def test_the_fence_alone_stops_an_older_attempt(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    sink.recover(recovery(1))
    zombie = sink.begin(TransactionId(owner_of("job", "out"), 1, 0, 1))
    sink.write(zombie, batch(1))
    asked(dsn, "UPDATE mainstay_fence SET attempt = 2, term = term + 1")
    with pytest.raises(FencedError, match="newer attempt"):
        sink.pre_commit(zombie)
    zombie.session.close()


def test_a_worker_waits_until_its_attempt_is_admitted(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    writer, handles = opened(sink, 1), []
    thread = threading.Thread(target=lambda: handles.append(prepared(writer, 1, 1)))
    thread.start()
    sink.recover(recovery(1))
    thread.join(PATIENCE_S)
    sink.commit(handles)
    assert ids_in(dsn) == [1]


def test_subtasks_that_create_the_table_at_once_all_write(dsn: str) -> None:
    for turn in range(10):
        sink = PostgresSink(dsn, f"t{turn}", create=True)
        sink.recover(SinkRecovery("out", f"job-{turn}", 1, ()))
        writers = [sink.open(SinkContext("out", n, 1, f"job-{turn}")) for n in range(4)]
        with ThreadPoolExecutor(4) as pool:
            handles = list(pool.map(lambda writer: prepared(writer, 1, 1), writers))
        sink.commit(handles)
        assert asked(dsn, f"SELECT count(*) FROM t{turn}") == [(4,)]


def test_recovering_again_changes_nothing(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    handle = prepared(begun(sink, 1), 1, 1)
    sink.recover(recovery(1))
    sink.commit([handle])
    assert ids_in(dsn) == [1]


@pytest.mark.parametrize("attempt", [1, 2])
def test_another_job_of_the_same_name_is_refused_until_its_place_is_free(
    dsn: str, attempt: int
) -> None:
    begun(PostgresSink(dsn, "t", create=True), 2)
    other = PostgresSink(dsn, "t")
    with pytest.raises(RestoreError, match="another job has the same name"):
        other.recover(recovery(attempt))
    asked(dsn, "DELETE FROM mainstay_fence")
    other.recover(recovery(attempt))
    assert asked(dsn, "SELECT attempt FROM mainstay_fence") == [(attempt,)]


def test_a_broken_connection_costs_nothing_but_time(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    writer = begun(sink, 1)
    write(writer, batch(1))
    asked(
        dsn,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'mainstay%' AND pid <> pg_backend_pid()",
    )
    work = writer.write(batch(2))
    assert work is not None
    with pytest.raises(ConnectionError):
        work()
    work()
    sink.commit([prepare(writer, 1) or b""])
    assert ids_in(dsn) == [1, 2]


def test_a_call_that_takes_too_long_is_given_up(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True, timeout="500ms")
    handle = prepared(begun(sink, 1), 1, 1)
    sink.commit([handle])
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn) as blocking:
        blocking.execute("LOCK TABLE t")
        with pytest.raises(ConnectionError):
            write(opened(sink, 1, subtask=1), batch(2))


# ---------------------------------------------------------------- what is wrong is said


def test_a_server_without_prepared_transactions_is_refused_with_a_remedy() -> None:
    try:
        server = PostgresServer(max_prepared_transactions=0)
    except ServiceMissing as missing:
        pytest.skip(str(missing))
    try:
        server.start()
        with pytest.raises(SinkError, match=r"allows 0 .* max_prepared_transactions = 64"):
            PostgresSink(server.schema(), "t").recover(recovery(1))
    finally:
        server.close()


def test_too_few_prepared_transactions_for_the_parallelism_are_refused(dsn: str) -> None:
    sink = PostgresSink(dsn, "t", create=True)
    sink.recover(recovery(1))
    shipped = pickle.loads(pickle.dumps(sink))
    with pytest.raises(SinkError, match=r"allows 64 .* needs 90: 3 for each of at least 30"):
        write(opened(shipped, 1, subtask=29), batch(1))


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("id bigint", "column 'name' \\(string\\) is not in the table.*ADD COLUMN"),
        ("id integer, name text", "column 'id' \\(long\\) does not fit .* which is integer"),
        ("id bigint, name text, more int NOT NULL", "'more' needs a value"),
        ("id bigint GENERATED ALWAYS AS IDENTITY, name text", "generates 'id' by itself"),
        ("id bigint CHECK (id < 0), name text", "violates check constraint"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(dsn: str, definition: str, message: str) -> None:
    asked(dsn, f"CREATE TABLE t ({definition})")
    with pytest.raises(SinkError, match=message):
        write(begun(PostgresSink(dsn, "t"), 1), batch(1))


def test_a_missing_table_is_an_error_that_says_how_to_have_it_made(dsn: str) -> None:
    with pytest.raises(SinkError, match="create=True"):
        write(begun(PostgresSink(dsn, "t"), 1), batch(1))


def test_a_password_is_in_no_message() -> None:
    sink = PostgresSink("postgresql://app:secret@127.0.0.1:1/shop", "t")
    with pytest.raises(ConnectionError, match=r"database 'shop' at 127\.0\.0\.1:1") as raised:
        sink.recover(recovery(1))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: PostgresSink("", "t"),
        lambda: PostgresSink("postgresql://h/d?nonsense=1", "t"),
        lambda: PostgresSink("dbname=x", "a.b.c"),
        lambda: PostgresSink("dbname=x", "t", timeout="0s"),
    ],
)
def test_wrong_arguments_are_refused_at_once(wrong: Any) -> None:
    with pytest.raises(GraphError):
        wrong()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GraphError, match=r"pip install 'mainstay\[postgres\]'"):
        PostgresSink("dbname=x", "t")


# ---------------------------------------------------------------- jobs

COUNT = 2_000


def job_into(sink: Any, count: int = COUNT) -> Any:
    return lambda env: env.source(Ids(count, 1_000.0), uid="ids").sink(sink, uid="out")


def check(dsn: str, count: int = COUNT) -> None:
    """Every row is there once, and nothing is left over."""
    assert Counter(ids_in(dsn)) == Counter(range(count))
    assert prepared_names(dsn) == []


def visible(dsn: str) -> Any:
    return lambda: len(ids_in(dsn))


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_at_any_edge_loses_and_doubles_nothing(
    dsn: str, tmp_path: Path, point: str
) -> None:
    sink = Crashing(PostgresSink(dsn, "t", create=True), point, tmp_path / "crashed")
    job = start(job_into(sink), tmp_path, name=name_of(dsn))
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert len(job.attempts()) == 2
    check(dsn)


@pytest.mark.parametrize("point", ["between_pre_commit_and_slot", "between_slot_and_commit"])
def test_nothing_is_seen_before_its_epoch_is_complete(dsn: str, tmp_path: Path, point: str) -> None:
    asked(dsn, "CREATE TABLE t (id bigint, k bigint)")
    sink = Crashing(
        PostgresSink(dsn, "t"), point, tmp_path / "crashed", visit=1, observe=visible(dsn)
    )
    job = start(job_into(sink), tmp_path, name=name_of(dsn), parallelism=1)
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.observed == 0
    check(dsn)


def test_a_worker_that_is_killed_loses_and_doubles_nothing(dsn: str, tmp_path: Path) -> None:
    kill_in_a_run(dsn, tmp_path, seed=1, kills=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_workers_that_are_killed_again_and_again_lose_and_double_nothing(
    dsn: str, tmp_path: Path, seed: int
) -> None:
    kill_in_a_run(dsn, tmp_path, seed, kills=4)


def kill_in_a_run(dsn: str, tmp_path: Path, seed: int, kills: int) -> None:
    count = 1_500 * (kills + 1)
    sink = PostgresSink(dsn, "t", create=True)
    job = start(
        job_into(sink, count),
        tmp_path,
        name=name_of(dsn),
        drive="processes",
        max_failures=kills + 2,
    )
    kill_workers(job, kills, seed)
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert len(job.attempts()) == kills + 1
    check(dsn, count)


def test_a_server_that_is_away_for_a_while_is_waited_for(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    count = 4_000
    job = start(job_into(PostgresSink(dsn, "t", create=True), count), tmp_path, name=name_of(dsn))
    await_until(lambda: complete_epochs(job) >= 2, "two epochs are complete")
    server.stop("immediate")
    try:
        problem = await_until(job.problems, "the job says what it waits for")[0]
        assert "sink 'out'" in str(problem)
        assert job.status == "running"
    finally:
        server.start()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    check(dsn, count)


def test_a_server_that_does_not_answer_for_a_while_is_waited_for(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    job = start(job_into(PostgresSink(dsn, "t", create=True)), tmp_path, name=name_of(dsn))
    await_until(lambda: complete_epochs(job) >= 2, "two epochs are complete")
    server.freeze()
    threading.Event().wait(2.0)
    server.thaw()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    check(dsn)


def test_a_job_that_is_rescaled_commits_what_it_had_prepared(dsn: str, tmp_path: Path) -> None:
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms"),
    )
    env.source(Ids(3_000, 1_000.0), uid="ids").sink(PostgresSink(dsn, "t", create=True), uid="out")
    job = env.start("rescaled")
    await_until(lambda: complete_epochs(job) >= 2, "two epochs are complete")
    job.rescale(3, PATIENCE_S)
    assert job.wait(PATIENCE_S) == "finished"
    check(dsn, 3_000)
