"""PostgresSource and a real server: order, late commits, ranges, restarts, outages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, SplitReader
from mainstay.connectors.postgres import PostgresSource, read_schema
from mainstay.connectors.postgres.horizon import SOON_S, Horizon
from mainstay.errors import GraphError, SourceError
from mainstay.schema import batch_to_rows, format_schema, row_class
from tests.drive.ledger import PATIENCE_S, await_until, complete_epochs
from tests.edges import Crashing, start
from tests.services.postgres import PostgresServer

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

POLL_S = 0.2


@pytest.fixture
def client(dsn: str) -> Iterator[Any]:
    """An independent client, whose statements commit by themselves."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def orders(dsn: str, **more: Any) -> PostgresSource:
    settings = {"schema": "id long, name string", "column": "id", "lag": 0, "poll": POLL_S, **more}
    return PostgresSource(dsn, "t", **settings)


def fill(client: Any, first: int, last: int) -> None:
    client.execute("CREATE TABLE IF NOT EXISTS t (id bigint PRIMARY KEY, name text)")
    client.execute(f"INSERT INTO t SELECT n, 'n' || n FROM generate_series({first}, {last}) AS n")


def only(source: PostgresSource, offset: Any = None) -> SplitReader:
    (split,) = source.plan(frozenset())
    return source.read(split, offset)


def read_on(reader: SplitReader, max_rows: int = 1000) -> tuple[list[tuple[Any, ...]], Any]:
    """The rows until there are none for now, and the offset behind them."""
    rows: list[tuple[Any, ...]] = []
    for _ in range(100):
        polled = reader.poll(max_rows)
        if polled.batch is not None:
            rows += [tuple(r) for r in batch_to_rows(polled.batch, row_class(polled.batch.schema))]
        elif polled.finished or polled.ready_in_s == POLL_S:
            return rows, polled.offset
        else:
            threading.Event().wait(SOON_S)  # another transaction is about to end
    raise AssertionError("there is no end of it")


def ids(rows: list[tuple[Any, ...]]) -> list[int]:
    return [row[0] for row in rows]


# ---------------------------------------------------------------- the horizon


def test_a_value_is_settled_when_everyone_who_was_writing_has_ended() -> None:
    horizon = Horizon(lag_s=0.0)
    horizon.see("5", now=0.0)
    assert horizon.wants_id(now=0.0)
    horizon.wait_for(12)
    horizon.running(oldest=10)
    assert horizon.settled is None
    horizon.see("9", now=1.0)
    assert not horizon.wants_id(now=1.0)
    horizon.running(oldest=12)
    assert horizon.settled == "5"
    horizon.see("9", now=2.0)
    assert horizon.wants_id(now=2.0)


def test_the_writers_are_those_of_a_lag_later() -> None:
    horizon = Horizon(lag_s=1.0)
    horizon.see("5", now=0.0)
    assert not horizon.wants_id(now=0.9)
    horizon.running(oldest=50)
    assert horizon.settled is None
    assert horizon.next_look_in_s(poll_s=10.0, now=0.4) == pytest.approx(0.6)
    assert horizon.wants_id(now=1.0)
    horizon.wait_for(51)
    assert horizon.next_look_in_s(poll_s=10.0, now=1.0) == SOON_S
    horizon.running(oldest=51)
    assert horizon.settled == "5"


def test_no_id_is_taken_while_there_is_nothing_new() -> None:
    horizon = Horizon(lag_s=0.0)
    horizon.see(None, now=0.0)
    assert not horizon.wants_id(now=1.0)
    assert horizon.next_look_in_s(poll_s=10.0, now=1.0) == 10.0


# ---------------------------------------------------------------- reading


def test_rows_come_in_the_order_of_the_column_and_go_on_from_an_offset(
    dsn: str, client: Any
) -> None:
    fill(client, 1, 10)
    source = orders(dsn)
    with closing(only(source)) as reader:
        first = reader.poll(4)
        assert first.batch is not None
        assert first.batch.column("id").to_pylist() == [1, 2, 3, 4]
        assert ids(read_on(reader, 4)[0]) == [5, 6, 7, 8, 9, 10]
        fill(client, 11, 12)
        assert ids(read_on(reader)[0]) == [11, 12]
    with closing(only(source, first.offset)) as again:
        assert ids(read_on(again)[0]) == list(range(5, 13))


def test_a_transaction_that_commits_late_is_not_passed_over(dsn: str, client: Any) -> None:
    fill(client, 1, 2)
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn) as late, closing(only(orders(dsn))) as reader:
        late.execute("INSERT INTO t VALUES (3, 'late')")
        fill(client, 4, 5)
        assert ids(read_on_for_now(reader)) == []
        late.commit()
        assert ids(read_on(reader)[0]) == [1, 2, 3, 4, 5]


def read_on_for_now(reader: SplitReader) -> list[tuple[Any, ...]]:
    batches = [reader.poll(1000).batch for _ in range(5)]
    return [tuple(row.values()) for batch in batches if batch for row in batch.to_pylist()]


def test_one_that_began_before_a_reader_and_took_a_lower_value_is_not_passed_over(
    dsn: str, client: Any
) -> None:
    """The transaction with the lower value has the higher id, so ids alone would not tell."""
    fill(client, 1, 1)
    psycopg = pytest.importorskip("psycopg")
    with (
        psycopg.connect(dsn) as first,
        psycopg.connect(dsn) as second,
        closing(only(orders(dsn))) as reader,
    ):
        first.execute("SELECT pg_current_xact_id()")
        second.execute("INSERT INTO t VALUES (2, 'lower value, higher id')")
        first.execute("INSERT INTO t VALUES (3, 'higher value, lower id')")
        first.commit()
        assert ids(read_on_for_now(reader)) == []
        second.commit()
        assert ids(read_on(reader)[0]) == [1, 2, 3]


def test_a_transaction_that_is_rolled_back_holds_nothing_up(dsn: str, client: Any) -> None:
    fill(client, 1, 1)
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn) as late, closing(only(orders(dsn))) as reader:
        late.execute("INSERT INTO t VALUES (2, 'never')")
        fill(client, 3, 3)
        late.rollback()
        assert ids(read_on(reader)[0]) == [1, 3]


def test_a_timestamp_with_a_tie_breaker(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    client.execute(
        "INSERT INTO t SELECT n, timestamptz '2024-05-01 00:00:00.000001+02' "
        "+ (n / 4) * interval '1 second' FROM generate_series(0, 9) AS n"
    )
    source = PostgresSource(
        dsn, "t", schema="id int, at timestamp", column="at", tie="id", lag=0, poll=POLL_S
    )
    with closing(only(source)) as reader:
        rows = [reader.poll(3) for _ in range(2)]
    with closing(only(source, rows[-1].offset)) as again:
        later, _ = read_on(again, 3)
    assert [b.column("id").to_pylist() for b in (r.batch for r in rows)] == [[0, 1, 2], [3, 4, 5]]
    assert ids(later) == [6, 7, 8, 9]
    assert later[0][1] == datetime(2024, 4, 30, 22, 0, 1, 1, tzinfo=timezone.utc)


def test_a_column_of_transaction_ids(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, tx xid8 DEFAULT pg_current_xact_id())")
    for n in (3, 1, 2):
        client.execute("INSERT INTO t VALUES (%s)", [n])
    client.execute("INSERT INTO t VALUES (5), (4)")
    source = orders(dsn, schema="id long", column="tx", tie="id")
    with closing(only(source)) as reader:
        assert ids(read_on(reader, 2)[0]) == [3, 1, 2, 4, 5]


def test_every_type_is_read_as_the_schema_says(dsn: str, client: Any) -> None:
    client.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    client.execute(
        "CREATE TABLE t (id bigint PRIMARY KEY, b boolean, s smallint, f real, d float8, "
        "m numeric(10,2), x bytea, day date, at timestamptz, local timestamp, tags text[], "
        "props jsonb, mood mood, big numeric, u uuid)"
    )
    client.execute(
        "INSERT INTO t VALUES (1, true, 2, 1.5, 'NaN', 12.50, '\\x00ff', '2024-05-01', "
        "'2024-05-01 12:00+00', '2024-05-01 12:00', '{a,NULL,\"b,c\"}', '{\"k\": 1}', 'good', "
        "1e30, '00000000-0000-0000-0000-000000000001')"
    )
    client.execute("INSERT INTO t (id) VALUES (2)")
    schema = (
        "id long, b boolean, s short, f float, d double, m decimal(10,2), x binary, day date, "
        "at timestamp, local timestamp_ntz, tags array<string>, props map<string,int>, "
        "mood string, big string, u string"
    )
    with closing(only(orders(dsn, schema=schema))) as reader:
        (first, second), _ = read_on(reader)
    assert first[5] == Decimal("12.50")
    assert first[4] != first[4]
    assert first[6] == b"\x00\xff"
    assert list(first[10]) == ["a", None, "b,c"]
    assert dict(first[11]) == {"k": 1}
    assert first[12:14] == ("good", "1000000000000000000000000000000")
    assert second == (2, *[None] * 14)


def test_the_schema_of_a_table_can_be_asked_for(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, at timestamptz, m numeric, n int)")
    assert format_schema(read_schema(dsn, "t")) == "id long, at timestamp, m string, n int"
    assert read_schema(dsn, "t", ["n"]).names == ["n"]
    with pytest.raises(SourceError, match="no columns"):
        read_schema(dsn, "t", ["nope"])


# ---------------------------------------------------------------- splits


@pytest.mark.parametrize("splits", [1, 3, 50])
def test_ranges_divide_what_is_there(dsn: str, client: Any, splits: int) -> None:
    fill(client, -5, 20)
    source = orders(dsn, bounded=True, splits=splits)
    planned = source.plan(frozenset())
    assert len(planned) <= splits
    rows = []
    for split in planned:
        with closing(source.read(split, None)) as reader:
            rows += read_on(reader, 2)[0]
    assert ids(rows) == list(range(-5, 21))


@pytest.mark.parametrize("splits", [1, 3])
def test_a_bounded_read_that_is_started_again_has_the_rows_that_have_come_since(
    dsn: str, client: Any, splits: int
) -> None:
    source = orders(dsn, bounded=True, splits=splits)
    seen: frozenset[str] = frozenset()
    found: list[int] = []
    for first, last in [(1, 100), (101, 101), (102, 250)]:
        fill(client, first, last)
        planned = source.plan(seen)
        assert not seen.intersection(split.id for split in planned)
        found += [n for split in planned for n in ids(read_on(source.read(split, None))[0])]
        seen |= {split.id for split in planned}
        assert source.plan(seen) == []
    assert sorted(found) == list(range(1, 251))


def test_a_bounded_read_may_become_one_without_end(dsn: str, client: Any) -> None:
    fill(client, 1, 20)
    seen = frozenset(split.id for split in orders(dsn, bounded=True, splits=2).plan(frozenset()))
    fill(client, 21, 30)
    endless = orders(dsn)
    (split,) = endless.plan(seen)
    with closing(endless.read(split, None)) as reader:
        assert ids(read_on(reader)[0]) == list(range(21, 31))
    assert endless.plan(seen | {split.id}) == []


def test_a_read_without_end_may_become_a_bounded_one(dsn: str, client: Any) -> None:
    fill(client, 1, 20)
    (split,) = orders(dsn).plan(frozenset())
    with closing(orders(dsn).read(split, None)) as reader:
        offset = read_on(reader)[1]
    bounded = orders(dsn, bounded=True, batch_rows=3)
    assert bounded.plan(frozenset({split.id})) == []
    for first, last in [(21, 30), (31, 30), (31, 32)]:
        fill(client, first, last)
        with closing(bounded.read(split, offset)) as reader:
            rows, offset = read_on(reader)
            assert ids(rows) == list(range(first, last + 1))


def test_the_end_of_a_bounded_read_is_where_the_rows_ended_when_it_began(
    dsn: str, client: Any
) -> None:
    fill(client, 1, 5)
    (split,) = orders(dsn).plan(frozenset())
    with closing(orders(dsn, bounded=True, batch_rows=2).read(split, None)) as reader:
        reader.poll(2)
        fill(client, 6, 9)
        assert max(ids(read_on(reader)[0])) == 5


def test_a_bounded_read_of_timestamps_goes_on_after_the_last(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text, at timestamptz UNIQUE)")
    source = orders(dsn, column="at", bounded=True)
    seen: frozenset[str] = frozenset()
    found = []
    for number in range(1, 4):
        client.execute(f"INSERT INTO t VALUES ({number}, 'x', now())")
        (split,) = source.plan(seen)
        found += ids(read_on(source.read(split, None))[0])
        seen |= {split.id}
    assert found == [1, 2, 3]


def test_ranges_of_timestamps_divide_what_is_there(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
    client.execute(
        "INSERT INTO t SELECT n, timestamp '2024-05-01' + n * interval '1 s' "
        "FROM generate_series(0, 99) AS n"
    )
    source = orders(dsn, schema="id int", column="at", tie="id", splits=4)
    planned = source.plan(frozenset())
    assert len(planned) == 5
    client.execute("INSERT INTO t VALUES (100, '2024-05-02')")
    rows = []
    for split in planned:
        with closing(source.read(split, None)) as reader:
            rows.append(ids(read_on(reader)[0]))
    assert [id for part in rows for id in part] == list(range(101))
    assert rows[-1] == [100]


def test_an_empty_table_has_nothing_to_split(dsn: str, client: Any) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    assert orders(dsn, bounded=True, splits=3).plan(frozenset()) == []
    (split,) = orders(dsn, splits=3).plan(frozenset())
    assert split.data == {"after": None, "upto": None}
    assert orders(dsn).plan(frozenset({split.id})) == []


# ---------------------------------------------------------------- rows that do not fit


def unfit(client: Any) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, at timestamp)")
    client.execute(
        "INSERT INTO t VALUES (1, '2024-05-01'), (2, 'infinity'), (3, NULL), (4, '2024-05-04')"
    )


def test_a_row_that_does_not_fit_ends_the_attempt_with_its_place(dsn: str, client: Any) -> None:
    unfit(client)
    with (
        closing(only(orders(dsn, schema="id long, at timestamp_ntz"))) as reader,
        pytest.raises(SourceError, match=r"table \"t\" .*, id = 2"),
    ):
        read_on(reader)


def test_rows_that_do_not_fit_can_be_left_out_and_counted(dsn: str, client: Any) -> None:
    unfit(client)
    source = orders(dsn, schema="id long, at timestamp_ntz", malformed="skip")
    with closing(only(source)) as reader:
        assert ids(read_on(reader)[0]) == [1, 3, 4]
        assert reader.skipped == 1


def test_rows_that_do_not_fit_can_go_to_the_side(dsn: str, client: Any) -> None:
    unfit(client)
    source = orders(dsn, schema="id long, at timestamp_ntz", malformed="side")
    assert source.malformed_column == "_malformed"
    with closing(only(source)) as reader:
        rows, _ = read_on(reader)
    assert ids(rows) == [1, None, 3, 4]
    assert rows[1][2].position.endswith("id = 2")
    assert b"infinity" in rows[1][2].raw
    assert rows[0][2] is None


# ---------------------------------------------------------------- what is wrong is said


@pytest.mark.parametrize(
    ("definition", "settings", "message"),
    [
        ("id bigint, name text", {}, "no unique index"),
        ("id bigint PRIMARY KEY, name int", {"column": "name"}, "no unique index"),
        ("id text PRIMARY KEY, name text", {"schema": "name string"}, "only grows"),
        ("id bigint PRIMARY KEY", {}, "has no column 'name'"),
        ("id bigint PRIMARY KEY, name text", {"tie": "nope"}, "has no column 'nope'"),
        ("id bigint PRIMARY KEY, name text", {"schema": "id int"}, "not read as int"),
        ("id xid8, name text, UNIQUE (id)", {"schema": "name string", "splits": 2}, "splits=1"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(
    dsn: str, client: Any, definition: str, settings: dict[str, Any], message: str
) -> None:
    client.execute(f"CREATE TABLE t ({definition})")
    with pytest.raises(SourceError, match=message):
        orders(dsn, **settings).plan(frozenset())


def test_a_missing_table_is_refused(dsn: str) -> None:
    with pytest.raises(SourceError, match="there is no table"):
        orders(dsn).plan(frozenset())


@pytest.mark.parametrize(
    "settings",
    [{"column": ""}, {"tie": 5}, {"splits": 0}, {"poll": 0}, {"lag": "x"}, {"malformed": "hide"}],
)
def test_wrong_arguments_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(GraphError):
        orders("dbname=x", **settings)


# ---------------------------------------------------------------- jobs


def test_a_bounded_job_reads_every_row_once_through_a_crash(
    dsn: str, client: Any, tmp_path: Path
) -> None:
    fill(client, 1, 3_000)
    memory = Memory()
    sink = Crashing(memory, "between_slot_and_commit", tmp_path / "crashed", visit=1)
    source = orders(dsn, bounded=True, splits=3, batch_rows=100)
    job = start(lambda env: env.source(source, uid="rows").sink(sink, uid="out"), tmp_path)
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.has_crashed
    assert sorted(ids(memory.rows())) == list(range(1, 3_001))


def test_a_job_that_ran_without_end_is_started_again_as_one_that_ends(
    dsn: str, client: Any, tmp_path: Path
) -> None:
    memory = Memory()

    def started(*, bounded: bool) -> Any:
        env = ms.Environment(
            spark="embedded",
            snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms"),
            restore="latest-or-new",
        )
        env.source(orders(dsn, bounded=bounded), uid="rows").sink(memory, uid="out")
        return env.start("turns")

    def runs_on_to(last: int) -> None:
        job = started(bounded=False)
        await_until(lambda: len(memory.rows()) >= last, "all rows have arrived")
        job.stop(timeout=PATIENCE_S)

    fill(client, 1, 10)
    runs_on_to(10)
    for first, last in [(11, 15), (16, 15), (16, 18)]:
        fill(client, first, last)
        assert started(bounded=True).wait(PATIENCE_S) == "finished"
        assert ids(memory.rows()) == list(range(1, last + 1))
    fill(client, 19, 20)
    runs_on_to(20)
    assert ids(memory.rows()) == list(range(1, 21))


def test_a_bounded_start_ends_where_the_table_is_still_empty(
    dsn: str, client: Any, tmp_path: Path
) -> None:
    client.execute("CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    (split,) = orders(dsn).plan(frozenset())
    with closing(orders(dsn, bounded=True).read(split, None)) as reader:
        polled = reader.poll(10)
    assert (polled.batch, polled.finished, polled.goes_on) == (None, True, True)


def test_a_job_goes_on_by_itself_after_an_outage(
    server: PostgresServer, dsn: str, client: Any, tmp_path: Path
) -> None:
    fill(client, 1, 500)
    memory = Memory()
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="200ms"),
    )
    env.source(orders(dsn, splits=2), uid="rows").sink(memory, uid="out")
    job = env.start("outage")
    await_until(lambda: len(memory.rows()) == 500, "the first rows have arrived")
    server.stop("immediate")
    try:
        (problem, *_) = await_until(job.problems, "the job says what it waits for")
        assert "source 'rows'" in str(problem)
    finally:
        server.start()
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(dsn, autocommit=True) as after:
        fill(after, 501, 700)
    await_until(lambda: len(memory.rows()) >= 700, "all rows have arrived")
    before = complete_epochs(job)
    await_until(lambda: complete_epochs(job) > before, "another epoch is complete")
    assert job.problems() == []
    job.cancel()
    assert sorted(ids(memory.rows())) == list(range(1, 701))
    assert len(job.attempts()) == 1
