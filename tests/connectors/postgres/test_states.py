"""Keyed state in PostgreSQL and a real server: crashes, outages, zombies, rescales, savepoints."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.postgres.states.settings import Postgres
from mainstay.errors import FencedError, GraphError, MainstayError, RestoreError
from mainstay.state.backends.external.descriptor import STORES
from mainstay.state.declaration import ListState, MapState, ValueState
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.drive.ledger import KEYS, PATIENCE_S, Ids, await_until, complete_epochs
from tests.edges import kill_workers, start
from tests.services.postgres import PostgresServer, asked, name_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

COUNT = 3_000
LONG = 60_000
"""Rows of a job that is stopped in the middle, wherever that is."""


class Seen(ms.KeyedProcess):
    """Writes every id down under its key, three times over, and reads each of them."""

    ids = ms.ListState("long")
    count = ms.ValueState("long")
    last = ms.MapState("string", "struct<id:long,half:double>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        self.count.update((self.count.get() or 0) + 1)
        if len(self.ids.get()) != self.count.get():
            raise AssertionError(f"{self.ids.get()} are not {self.count.get()} ids")
        self.last.put("id", (row.id, row.id / 2))
        return ctx.key, row.id


def schema_of(dsn: str) -> str:
    return f"states {name_of(dsn)}"


def state_in(dsn: str, **more: Any) -> Postgres:
    return ms.Postgres(dsn, schema=schema_of(dsn), **more)


def environment(dsn: str, path: Path, **more: Any) -> Any:
    return with_state(state_in(dsn, cache="1MiB"), path, **more)


def with_state(
    state: Any, path: Path, *, parallelism: int = 2, count: int = COUNT, restore: Any = None
) -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        state=state,
        restore=restore,
        snapshots=ms.Snapshots(path / "snapshots", every="100ms"),
    )
    rows = env.source(Ids(count, 1_000.0), uid="ids").key_by("k")
    rows.process(Seen(), "k long, id long", uid="seen").sink(ms.connectors.Memory(), uid="out")
    return env


def table_of(dsn: str, state: str) -> str:
    """The table that a client finds a state in."""
    query = f"SELECT name FROM \"{schema_of(dsn)}\".mainstay_state_tables WHERE state = '{state}'"
    ((name,),) = asked(dsn, query)
    return f'"{schema_of(dsn)}"."{name}"'


def check(dsn: str, count: int = COUNT) -> None:
    """Every id is in the tables once, under its key."""
    found: Counter[int] = Counter()
    for key, ids in asked(dsn, f"SELECT key, value FROM {table_of(dsn, 'ids')}"):
        assert all(id % KEYS == key for id in ids)
        found.update(ids)
    assert found == Counter(range(count))
    ((total,),) = asked(dsn, f"SELECT sum(value) FROM {table_of(dsn, 'count')}")
    assert total == count


# ---------------------------------------------------------------- what others read


def test_a_state_is_a_table_that_others_read(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path).start("seen")
    assert job.wait(PATIENCE_S) == "finished"
    check(dsn)
    rows = asked(dsn, f"SELECT key, map_key, value_id, value_half FROM {table_of(dsn, 'last')}")
    assert len(rows) == KEYS
    assert all(name == "id" and id == 2 * half and id % KEYS == key for key, name, id, half in rows)


def test_the_snapshot_names_the_database_without_a_secret(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path).start("seen")
    assert job.wait(PATIENCE_S) == "finished"
    described = list((tmp_path / "snapshots").rglob("*-c*.json"))
    assert described
    for path in described:
        document = json.loads(path.read_bytes())
        assert document["store"] in STORES
        assert dsn not in path.read_text()


# ---------------------------------------------------------------- failures


def test_a_worker_that_is_killed_loses_and_doubles_nothing(dsn: str, tmp_path: Path) -> None:
    def build(env: Any) -> None:
        rows = env.source(Ids(COUNT, 1_000.0), uid="ids").key_by("k")
        rows.process(Seen(), "k long, id long", uid="seen").sink(ms.connectors.Memory(), uid="out")

    job = start(
        build,
        tmp_path,
        name=name_of(dsn),
        drive="processes",
        max_failures=4,
        state=state_in(dsn, cache="1MiB"),
    )
    kill_workers(job, 1, seed=1)
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    check(dsn)


def crash_the_server(server: PostgresServer, dsn: str, tmp_path: Path, rounds: int) -> None:
    count = COUNT * rounds
    job = environment(dsn, tmp_path, count=count).start("seen")
    for number in range(1, rounds + 1):
        epochs = 3 * number
        await_until(lambda: complete_epochs(job) >= epochs, "epochs are complete")  # noqa: B023
        server.stop("immediate")
        server.start()
    assert job.wait(4 * PATIENCE_S) == "finished"
    check(dsn, count)


def test_a_server_that_crashes_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=3)


@pytest.mark.soak
def test_a_server_that_crashes_again_and_again_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=20)


def test_a_server_that_is_away_for_a_while_is_waited_for(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    job = with_state(state_in(dsn), tmp_path).start("seen")
    await_until(lambda: complete_epochs(job) >= 5, "every key was seen")
    server.stop("immediate")
    try:
        problem = await_until(job.problems, "the job says what it waits for")[0]
        assert "cannot reach the database of its state" in str(problem)
        before = complete_epochs(job)
        await_until(lambda: complete_epochs(job) > before, "epochs go on without the database")
        assert job.status == "running"
    finally:
        server.start()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    assert not job.problems()
    check(dsn)


def rows_read(job: Any) -> int:
    return sum(each.rows for each in job.metrics().values() if each.is_source)


def named(dsn: str, name: str) -> str:
    return f'"{schema_of(dsn)}"."{name}"'


def view_of(dsn: str, state: str) -> Any:
    """The view that a client finds a state in, where there are versions."""
    query = f"SELECT view FROM {named(dsn, 'mainstay_state_views')} WHERE state = '{state}'"
    ((name,),) = asked(dsn, query)
    return name


@pytest.mark.parametrize("protocol", ["logged", "versioned"])
def test_a_job_ends_when_the_database_has_everything(
    server: PostgresServer, dsn: str, tmp_path: Path, protocol: Any
) -> None:
    """It ended without a word while the database was away, which had nothing then."""
    job = with_state(state_in(dsn, protocol=protocol), tmp_path, count=500).start("seen")
    await_until(lambda: complete_epochs(job) >= 1, "an epoch is complete")
    server.stop("immediate")
    try:
        problem = await_until(job.problems, "the job says what it waits for")[0]
        assert "cannot reach the database of its state" in str(problem)
        await_until(lambda: rows_read(job) == 500, "all input was read")
        assert job.status == "running"
    finally:
        server.start()
    assert job.wait(PATIENCE_S) == "finished"
    # Of versions what the pointer shows counts.
    where = table_of(dsn, "count") if protocol == "logged" else named(dsn, view_of(dsn, "count"))
    assert asked(dsn, f"SELECT sum(value) FROM {where}") == [(500,)]


# ---------------------------------------------------------------- moving


def test_a_job_that_is_rescaled_goes_on_with_its_tables(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path).start("seen")
    for parallelism in (3, 2):
        epochs = complete_epochs(job) + 2
        await_until(lambda: complete_epochs(job) >= epochs, "epochs are complete")  # noqa: B023
        job.rescale(parallelism, PATIENCE_S)
    assert job.wait(PATIENCE_S) == "finished"
    check(dsn)


def test_a_savepoint_goes_to_another_backend_and_back(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path / "1", count=9_000).start("seen")
    await_until(lambda: complete_epochs(job) >= 5, "epochs are complete")
    job.stop(tmp_path / "first", timeout=PATIENCE_S)
    heap = with_state("heap", tmp_path / "2", count=9_000, restore=tmp_path / "first").start("seen")
    await_until(lambda: complete_epochs(heap) >= 1, "an epoch is complete")
    heap.stop(tmp_path / "second", timeout=PATIENCE_S)
    asked(dsn, f'DROP SCHEMA "{schema_of(dsn)}" CASCADE')
    back = environment(dsn, tmp_path / "3", count=9_000, restore=tmp_path / "second").start("seen")
    assert back.wait(PATIENCE_S) == "finished"
    check(dsn, 9_000)


def test_a_job_that_is_started_again_goes_on(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path, count=9_000).start("seen")
    await_until(lambda: complete_epochs(job) >= 3, "epochs are complete")
    job.stop(timeout=PATIENCE_S)
    again = environment(dsn, tmp_path, count=9_000, parallelism=3, restore="latest").start("seen")
    assert again.wait(PATIENCE_S) == "finished"
    check(dsn, 9_000)


# ---------------------------------------------------------------- refusals


def test_an_epoch_that_the_tables_have_moved_on_from_is_refused(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path, count=LONG).start("seen")
    await_until(lambda: complete_epochs(job) >= 4, "epochs are complete")
    job.stop(timeout=PATIENCE_S)
    older = [each.epoch for each in job.snapshots() if each.status == "complete"][-2]
    again = environment(dsn, tmp_path, count=LONG, restore=older).start("seen")
    with pytest.raises(RestoreError, match=r"moved on to epoch .* or from a savepoint"):
        again.wait(PATIENCE_S)


def test_tables_that_were_dropped_are_missed(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path, count=LONG).start("seen")
    await_until(
        lambda: list((tmp_path / "snapshots").rglob("*-c*.json")), "there is a base in the database"
    )
    # An epoch without the base has all segments, and the tables could be made anew.
    epochs = complete_epochs(job) + 2
    await_until(lambda: complete_epochs(job) >= epochs, "epochs have the base")
    job.stop(timeout=PATIENCE_S)
    asked(dsn, f'DROP SCHEMA "{schema_of(dsn)}" CASCADE')
    again = environment(dsn, tmp_path, count=LONG, restore="latest").start("seen")
    # A subtask whose chain has no base may have made them anew before another one looks.
    with pytest.raises(RestoreError, match=r"is not in schema|has lost what it had acknowledged"):
        again.wait(PATIENCE_S)


def test_a_fenced_worker_cannot_write(dsn: str) -> None:
    opening = OpenBackend(state_in(dsn))
    states = {"n": ValueState("long"), "l": ListState("long")}
    old = opening(states, "long")
    old.at(1).n.update(1)
    epoch = old.snapshot()
    old.keyed.backend.on_complete(old.epoch)
    old.tend()
    old.at(1).n.update(2)
    old.snapshot()
    old.keyed.backend.on_complete(old.epoch)
    new = opening.reopen(states, epoch, "long")
    with pytest.raises(FencedError, match="a newer one has taken over"):
        old.tend()
    assert new.at(1).n.get() == 1
    for member in opening.opened:
        member.release()


def evict(backend: BackendUnderTest) -> None:
    """Forget the rows that are cached."""
    for table in backend.keyed.backend.tables.values():
        table.keep(0)


@pytest.mark.parametrize("protocol", ["logged", "versioned"])
def test_a_fenced_worker_cannot_read(dsn: str, protocol: Any) -> None:
    """What it has in memory and what its successor has written are no state together."""
    opening = OpenBackend(state_in(dsn, protocol=protocol, cache="1MiB"))
    states = {"n": ValueState("long"), "m": MapState("long", "long")}
    old = opening(states, "long")
    for key in range(1000):
        old.at(key).n.update(key)
        old.at(key).m.put(key, key)
    epoch = old.snapshot()
    old.keyed.backend.on_complete(old.epoch)
    old.tend()
    evict(old)
    assert (old.at(1).n.get(), old.at(2).m.get(2)) == (1, 2)
    opening.reopen(states, epoch, "long")
    evict(old)
    reads: list[Callable[[], Any]] = [
        lambda: old.at(3).n.get(),
        lambda: old.at(4).m.get(4),
        lambda: list(old.at(5).m.keys()),
    ]
    for read in reads:
        with pytest.raises(FencedError, match="a newer one has taken over"):
            read()
    for member in opening.opened:
        member.release()


def test_a_key_that_no_index_takes_is_named(dsn: str) -> None:
    opening = OpenBackend(state_in(dsn))
    backend = opening({"n": ValueState("long")})
    backend.at("x" * 5000).n.update(1)
    backend.snapshot()
    backend.keyed.backend.on_complete(backend.epoch)
    with pytest.raises(ms.errors.MainstayError, match=r"state 'n': a key takes 50.* bytes"):
        backend.tend()
    for member in opening.opened:
        member.release()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Postgres("dbname=x", protocol="version"), "Did you mean 'versioned'"),
        (lambda: Postgres("dbname=x", schema=""), "name of a schema"),
        (lambda: Postgres("dbname=x", cache="1KiB"), "at least 1MiB"),
        (lambda: Postgres(""), "says how to connect"),
    ],
)
def test_wrong_arguments_are_refused_at_once(wrong: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        wrong()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GraphError, match=r"pip install 'mainstay\[postgres\]'"):
        Postgres("dbname=x")


def text_of(path: Path) -> str:
    """A file of a running job, which may be deleted meanwhile."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def test_a_snapshot_of_an_unknown_database_says_what_to_do(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path, count=LONG).start("seen")
    manifests = tmp_path / "snapshots" / "epochs"
    await_until(
        lambda: any('"external"' in text_of(path) for path in manifests.glob("*.json")),
        "an epoch has its base in the database",
    )
    job.stop(timeout=PATIENCE_S)
    del STORES[state_in(dsn).name]
    heap = with_state("heap", tmp_path, count=LONG, restore="latest").start("seen")
    with pytest.raises(RestoreError, match="does not know how to reach"):
        heap.wait(PATIENCE_S)


def as_role(dsn: str, role: str) -> str:
    """The DSN for another role, which may log in."""
    asked(dsn, f'CREATE ROLE "{role}" LOGIN')
    return dsn.replace("//postgres@", f"//{role}@")


def test_a_role_needs_rights_on_the_schema_alone(dsn: str, tmp_path: Path) -> None:
    role = f"app_{name_of(dsn)}"
    own, schema = as_role(dsn, role), f"of_{role}"
    asked(dsn, f'CREATE SCHEMA "{schema}"')
    asked(dsn, f'GRANT USAGE, CREATE ON SCHEMA "{schema}" TO "{role}"')
    env = with_state(ms.Postgres(own, schema=schema), tmp_path, count=100)
    assert env.start("seen").wait(PATIENCE_S) == "finished"


def test_a_role_without_rights_is_told_which_and_is_not_started_again(
    dsn: str, tmp_path: Path
) -> None:
    role = f"app_{name_of(dsn)}"
    own = as_role(dsn, role)
    asked(dsn, f'CREATE SCHEMA "of_{role}"')
    job = with_state(ms.Postgres(own, schema=f"of_{role}"), tmp_path, count=100).start("seen")
    with pytest.raises(MainstayError, match=r"permission denied.*needs USAGE and CREATE"):
        job.wait(PATIENCE_S)
    assert job.exit_code == 78


def test_a_table_that_is_dropped_while_a_job_runs_is_named(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path, count=LONG).start("seen")
    await_until(lambda: complete_epochs(job) >= 3, "epochs are complete")
    await_until(lambda: asked(dsn, f"SELECT 1 FROM {table_of(dsn, 'count')} LIMIT 1"), "rows")
    asked(dsn, f"DROP TABLE {table_of(dsn, 'count')}")
    with pytest.raises(MainstayError, match=r"does not exist.* bring it back, or start the job"):
        job.wait(PATIENCE_S)
    assert job.exit_code == 78
