"""Keyed state in PostgreSQL and a real server: crashes, outages, zombies, rescales, savepoints."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.postgres.states.settings import Postgres
from mainstay.errors import FencedError, GraphError, RestoreError
from mainstay.state.backends.external.descriptor import STORES
from mainstay.state.declaration import ListState, ValueState
from tests.contract.conftest import OpenBackend
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
    job.stop(timeout=PATIENCE_S)
    asked(dsn, f'DROP SCHEMA "{schema_of(dsn)}" CASCADE')
    again = environment(dsn, tmp_path, count=LONG, restore="latest").start("seen")
    with pytest.raises(RestoreError, match="is not in schema"):
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
        (
            lambda: Postgres("dbname=x", protocol="versioned"),
            "unknown: there is 'logged', 'prepared'",
        ),
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
