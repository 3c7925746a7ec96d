"""Keyed state in versions and a real server: what others see while a job runs, fails and moves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors.postgres.states import versions
from mainstay.errors import RestoreError
from mainstay.runtime.coordinator.sourcing import unfinished
from mainstay.runtime.coordinator.splits import seen_in
from mainstay.snapshot.manifest import Manifest
from mainstay.state.backends.external import retained
from mainstay.state.backends.external.descriptor import check_not_abandoned
from mainstay.state.backends.external.store import GROUP, Applied, StateChanges
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.keygroups import KeyGroupRange
from tests.connectors.postgres.test_states import named, schema_of, state_in, view_of
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.drive.ledger import KEYS, PATIENCE_S, Ids, await_until, complete_epochs
from tests.edges import kill_workers, start
from tests.services.postgres import PostgresServer, asked, name_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

COUNT = 3_000
LONG = 60_000


@pytest.fixture(autouse=True)
def folds_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "LEAST_ROWS", 1)
    monkeypatch.setattr(retained, "ROWS_AT_A_TIME", 50)


class Account(ms.KeyedProcess):
    """Keeps what an account has, how often it was paid to or from, and every amount."""

    balance = ms.ValueState("long")
    moves = ms.ValueState("long")
    amounts = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.balance.update((self.balance.get() or 0) + row.amount)
        self.moves.update((self.moves.get() or 0) + 1)
        self.amounts.add(row.amount)
        return ctx.key, row.amount


def transfers(row: Any) -> Any:
    """From an account to another: what both have together stays the same."""
    yield row.id % KEYS, -row.id
    yield row.id * 7 % KEYS, row.id


def build(env: Any, count: int) -> None:
    paid = env.source(Ids(count, 1_000.0), uid="ids").flat_map(transfers, "k long, amount long")
    accounts = paid.key_by("k").process(Account(), "k long, amount long", uid="accounts")
    accounts.sink(ms.connectors.Memory(), uid="out")


def job_of(
    dsn: str,
    path: Path,
    *,
    parallelism: int = 2,
    count: int = COUNT,
    state: Any = None,
    **more: Any,
) -> Any:
    retain = more.pop("retain", 3)
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        state=state or state_in(dsn, protocol="versioned", cache="1MiB"),
        snapshots=ms.Snapshots(path / "snapshots", every="100ms", retain=retain),
        **more,
    )
    build(env, count)
    return env


def is_viewed(dsn: str) -> bool:
    """Whether there is something to look at."""
    with suppress(psycopg.errors.UndefinedTable):
        return bool(asked(dsn, f"SELECT 1 FROM {named(dsn, 'mainstay_state_views')}"))
    return False


def rows_read_at(path: Path, seen: dict[int, int], count: int) -> None:
    """Note how many rows of the source each epoch has, as its manifest says it."""
    for file in (path / "snapshots" / "epochs").glob("*.json"):
        with suppress(FileNotFoundError):
            manifest = Manifest.from_bytes(file.read_bytes())
            notes, begun = seen_in(manifest.sources.get("ids")), unfinished(manifest, "ids")
            rows = len(notes - begun.keys()) * (count // 4)
            for id, offset in begun.items():
                rows += 0 if offset is None else offset - int(id.removeprefix("ids-"))
            seen[manifest.epoch] = rows


@dataclass
class Watcher:
    """Looks at the views all the time, as another program does, and keeps what it saw."""

    dsn: str
    path: Path
    count: int
    reads: list[tuple[int, int, int, int]] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)

    def look(self, connection: Any) -> None:
        balance, moves = (named(self.dsn, view_of(self.dsn, s)) for s in ("balance", "moves"))
        amounts = named(self.dsn, view_of(self.dsn, "amounts"))
        views = named(self.dsn, "mainstay_state_views")
        query = f"""
        SELECT (SELECT epoch FROM {views} WHERE state = 'moves'),
               (SELECT coalesce(sum(value), 0) FROM {balance}),
               (SELECT coalesce(sum(value), 0) FROM {moves}),
               (SELECT coalesce(sum(jsonb_array_length(value)), 0) FROM {amounts})
        """
        self.reads.append(connection.execute(query).fetchone())
        rows_read_at(self.path, self.epochs, self.count)

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with psycopg.connect(self.dsn, autocommit=True) as connection:
                    while not stop.wait(0.01):
                        self.look(connection)
            except psycopg.OperationalError:
                continue  # the server is away
            except Exception as error:
                self.errors.append(error)
                return

    def check(self) -> None:
        assert not self.errors
        assert len({epoch for epoch, *_ in self.reads}) >= 5
        compared = set()
        for epoch, balance, moves, amounts in self.reads:
            assert balance == 0
            assert amounts == moves
            if epoch in self.epochs:
                assert moves == 2 * self.epochs[epoch], f"epoch {epoch}"
                compared.add(epoch)
        # How long each of them was to be seen says something of the machine.
        assert len(compared) >= 3


@contextmanager
def watched(dsn: str, path: Path, count: int) -> Iterator[Watcher]:
    """Look at the views while something else is done, and check every look at the end."""
    watcher, stop = Watcher(dsn, path, count), threading.Event()
    await_until(lambda: is_viewed(dsn), "there is something to look at")
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    try:
        yield watcher
    finally:
        stop.set()
        thread.join()
    watcher.check()


def check(dsn: str, count: int) -> None:
    """The views have all rows."""
    expected: dict[int, list[int]] = {}
    for id in range(count):
        for key, amount in ((id % KEYS, -id), (id * 7 % KEYS, id)):
            expected.setdefault(key, []).append(amount)
    found = asked(dsn, f"SELECT key, value FROM {named(dsn, view_of(dsn, 'amounts'))}")
    assert {key: sorted(amounts) for key, amounts in found} == {
        key: sorted(amounts) for key, amounts in expected.items()
    }
    balances = asked(dsn, f"SELECT key, value FROM {named(dsn, view_of(dsn, 'balance'))}")
    assert dict(balances) == {key: sum(amounts) for key, amounts in expected.items()}


# ---------------------------------------------------------------- what others see


def test_every_look_is_a_whole_epoch_while_a_job_is_rescaled(dsn: str, tmp_path: Path) -> None:
    job = job_of(dsn, tmp_path).start("accounts")
    with watched(dsn, tmp_path, COUNT):
        for parallelism in (3, 2):
            epochs = complete_epochs(job) + 3
            await_until(lambda: complete_epochs(job) >= epochs, "epochs are complete")  # noqa: B023
            job.rescale(parallelism, PATIENCE_S)
        assert job.wait(PATIENCE_S) == "finished"
    check(dsn, COUNT)


def test_every_look_is_a_whole_epoch_while_a_worker_is_killed(dsn: str, tmp_path: Path) -> None:
    state = state_in(dsn, protocol="versioned", cache="1MiB")
    job = start(
        lambda env: build(env, COUNT),
        tmp_path,
        name=name_of(dsn),
        drive="processes",
        max_failures=4,
        state=state,
    )
    with watched(dsn, tmp_path, COUNT):
        kill_workers(job, 1, seed=1)
        assert job.wait(2 * PATIENCE_S) == "finished"
    check(dsn, COUNT)


def crash_the_server(server: PostgresServer, dsn: str, tmp_path: Path, rounds: int) -> None:
    count = COUNT * rounds
    job = job_of(dsn, tmp_path, count=count).start("accounts")
    with watched(dsn, tmp_path, count):
        for number in range(1, rounds + 1):
            epochs = 5 * number
            await_until(lambda: complete_epochs(job) >= epochs, "epochs are complete")  # noqa: B023
            server.stop("immediate")
            server.start()
        assert job.wait(4 * PATIENCE_S) == "finished"
    check(dsn, count)


def test_every_look_is_a_whole_epoch_while_the_server_crashes(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=1)


@pytest.mark.soak
def test_every_look_is_a_whole_epoch_while_the_server_crashes_again_and_again(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=10)


# ---------------------------------------------------------------- epochs


def test_an_epoch_that_is_kept_is_looked_at_by_its_number(dsn: str, tmp_path: Path) -> None:
    job = job_of(dsn, tmp_path).start("accounts")
    await_until(lambda: complete_epochs(job) >= 8, "epochs are complete")
    job.stop(timeout=PATIENCE_S)
    seen: dict[int, int] = {}
    rows_read_at(tmp_path, seen, COUNT)
    views = named(dsn, "mainstay_state_views")
    ((viewable,),) = asked(dsn, f"SELECT viewable FROM {views} WHERE state = 'moves'")
    assert len(viewable) >= 3
    at = named(dsn, f"{view_of(dsn, 'moves')}_at")
    for epoch in set(viewable) & set(seen):
        assert asked(dsn, f"SELECT sum(value) FROM {at}({epoch})") == [(2 * seen[epoch],)]
    assert set(viewable) & set(seen)
    with pytest.raises(psycopg.errors.RaiseException, match=f"There are: {viewable[0]}, "):
        asked(dsn, f"SELECT * FROM {at}(1)")


def test_an_older_epoch_is_gone_back_to(dsn: str, tmp_path: Path) -> None:
    job = job_of(dsn, tmp_path, count=9_000).start("accounts")
    await_until(lambda: complete_epochs(job) >= 6, "epochs are complete")
    job.stop(timeout=PATIENCE_S)
    older = [each.epoch for each in job.snapshots() if each.status == "complete"][-2]
    again = job_of(dsn, tmp_path, count=9_000, restore=older).start("accounts")
    assert again.wait(PATIENCE_S) == "finished"
    check(dsn, 9_000)


def test_an_epoch_that_was_left_behind_is_refused_where_its_base_is_gone(dsn: str) -> None:
    opening, backend = opened(dsn)
    epochs = []
    for number in range(3):
        backend.at(1).n.update(number)
        complete(backend)
        epochs.append(backend.epoch)
    back_to, left, last = epochs
    store = state_in(dsn, protocol="versioned")._store()
    tables, every = backend.keyed.backend.own.set, KeyGroupRange(0, 127)
    store.fence(tables, 2, [], is_known=True)
    applied = store.applied(tables, every)
    newer = [row for row in applied if row.epoch > back_to]
    store.discard(tables, 2, every, newer, back_to)
    abandoned = store.abandoned(tables)
    assert abandoned == [(back_to, last)]
    for epoch, is_gone in ((back_to, False), (left, True), (last, True), (last + 1, False)):
        refused = pytest.raises(RestoreError, match=f"went back to epoch {back_to}")
        with refused if is_gone else nullcontext():
            check_not_abandoned(tables, [epoch], abandoned)
    release(opening)


def test_a_job_goes_to_another_backend_and_back(dsn: str, tmp_path: Path) -> None:
    job = job_of(dsn, tmp_path / "1", count=9_000).start("accounts")
    await_until(lambda: complete_epochs(job) >= 5, "epochs are complete")
    job.stop(tmp_path / "first", timeout=PATIENCE_S)
    heap = job_of(dsn, tmp_path / "2", count=9_000, state="heap", restore=tmp_path / "first")
    moved = heap.start("accounts")
    await_until(lambda: complete_epochs(moved) >= 1, "an epoch is complete")
    moved.stop(tmp_path / "second", timeout=PATIENCE_S)
    asked(dsn, f'DROP SCHEMA "{schema_of(dsn)}" CASCADE')
    back = job_of(dsn, tmp_path / "3", count=9_000, restore=tmp_path / "second").start("accounts")
    assert back.wait(PATIENCE_S) == "finished"
    check(dsn, 9_000)


# ---------------------------------------------------------------- views

STATES = {"n": ValueState("long"), "m": MapState("string", "long"), "l": ListState("string")}


def opened(dsn: str) -> tuple[OpenBackend, BackendUnderTest]:
    opening = OpenBackend(state_in(dsn, protocol="versioned"))
    return opening, opening(STATES, "long")


def complete(backend: BackendUnderTest) -> Any:
    """An epoch that is committed, and that others see."""
    state = backend.snapshot()
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    return state


def seen(dsn: str, state: str) -> list[tuple[Any, ...]]:
    return sorted(asked(dsn, f"SELECT * FROM {named(dsn, view_of(dsn, state))}"))


def release(opening: OpenBackend) -> None:
    for member in opening.opened:
        member.release()


def test_what_is_not_committed_is_not_seen(dsn: str) -> None:
    opening, backend = opened(dsn)
    backend.at(1).n.update(10)
    backend.at(1).m.put("a", 1)
    backend.at(1).l.add("x")
    complete(backend)
    backend.at(1).n.update(20)
    backend.at(1).m.remove("a")
    backend.at(2).m.put("b", 2)
    backend.at(1).l.add("y")
    backend.snapshot()
    backend.tend()
    assert seen(dsn, "n") == [(1, 10)]
    assert seen(dsn, "m") == [(1, "a", 1)]
    assert seen(dsn, "l") == [(1, ["x"])]
    complete(backend)
    assert seen(dsn, "n") == [(1, 20)]
    assert seen(dsn, "m") == [(2, "b", 2)]
    assert seen(dsn, "l") == [(1, ["x", "y"])]
    release(opening)


def test_a_list_that_was_cleared_begins_anew(dsn: str) -> None:
    opening, backend = opened(dsn)
    for word in ("a", "b"):
        backend.at(1).l.add(word)
        backend.at(1).m.put(word, 1)
        complete(backend)
    backend.at(1).l.clear()
    backend.at(1).m.clear()
    backend.at(1).m.put("c", 3)
    complete(backend)
    assert seen(dsn, "l") == []
    assert seen(dsn, "m") == [(1, "c", 3)]
    backend.at(1).l.add("c")
    for number in range(3):
        backend.at(2).n.update(number)
        complete(backend)
    assert seen(dsn, "l") == [(1, ["c"])]
    assert seen(dsn, "m") == [(1, "c", 3)]
    assert backend.at(1).l.get() == ["c"]
    release(opening)


def test_what_a_failed_attempt_has_brought_is_taken_back(dsn: str) -> None:
    opening, backend = opened(dsn)
    backend.at(1).n.update(1)
    epoch = complete(backend)
    backend.at(1).n.update(2)
    backend.at(3).n.update(3)
    backend.snapshot()
    backend.tend()
    again = opening.reopen(STATES, epoch, "long")
    assert again.at(1).n.get() == 1
    assert again.at(3).n.get() is None
    again.at(4).n.update(4)
    complete(again)
    assert seen(dsn, "n") == [(1, 1), (4, 4)]
    release(opening)


def test_an_epoch_behind_the_fold_is_refused(dsn: str) -> None:
    opening, backend = opened(dsn)
    backend.at(1).n.update(1)
    epoch = complete(backend)
    for number in range(3):
        backend.at(1).n.update(number)
        complete(backend)
    with pytest.raises(RestoreError, match=r"the oldest epoch that it has is \d+, and an older"):
        opening.reopen(STATES, epoch, "long")
    release(opening)


def test_who_may_only_look_at_a_view_can(dsn: str) -> None:
    opening, backend = opened(dsn)
    backend.at(1).n.update(7)
    complete(backend)
    view, role = view_of(dsn, "n"), f"reader_{name_of(dsn)}"
    asked(dsn, f'CREATE ROLE "{role}"')
    asked(dsn, f'GRANT USAGE ON SCHEMA "{schema_of(dsn)}" TO "{role}"')
    asked(dsn, f'GRANT SELECT ON {named(dsn, view)} TO "{role}"')
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'SET ROLE "{role}"')
        assert connection.execute(f"SELECT * FROM {named(dsn, view)}").fetchall() == [(1, 7)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM {named(dsn, f'{view}_at')}({backend.epoch})")
    asked(dsn, f'GRANT EXECUTE ON FUNCTION {named(dsn, f"{view}_at")} TO "{role}"')
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'SET ROLE "{role}"')
        rows = connection.execute(f"SELECT * FROM {named(dsn, f'{view}_at')}({backend.epoch})")
        assert rows.fetchall() == [(1, 7)]
    release(opening)


def test_a_key_is_looked_up_and_not_searched_for(dsn: str) -> None:
    opening, backend = opened(dsn)
    for key in range(3_000):
        backend.at(key).n.update(key)
    complete(backend)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
        query = f"EXPLAIN SELECT * FROM {named(dsn, view_of(dsn, 'n'))} WHERE key = 5"
        plan = "\n".join(line for (line,) in connection.execute(query))
    assert "_delta" in plan
    assert not any("Seq Scan" in line and "_delta" in line for line in plan.splitlines()), plan
    release(opening)


def test_what_is_taken_back_leaves_segments_of_other_subtasks_alone(dsn: str) -> None:
    """Subtasks number their segments by themselves. After a rescale a subtask took a segment of
    one of them back, and with it what another had brought under the same number."""
    opening, backend = opened(dsn)
    store, tables = backend.keyed.backend.own.store, backend.keyed.backend.own.set
    backend.at(1).n.update(1)
    complete(backend)
    changes = {}
    for group in (10, 100):
        row, readable = (GROUP.pack(group) + b"k", b"", b"v"), pa.table({"key": [1], "value": [1]})
        changes[group] = StateChanges("n", [], [], [row], readable)
    halves = KeyGroupRange(0, 63), KeyGroupRange(64, 127)
    failed, kept = Applied("s0-e4", 4, 7, halves[0]), Applied("s1-e3", 3, 7, halves[1])
    for segment, group in ((failed, 10), (kept, 100)):
        store.apply(tables, 1, segment, [changes[group]], -1)
    own = KeyGroupRange(5, 127)
    store.discard(tables, 1, own, [failed], 3)
    keys = [GROUP.pack(group) + b"k" for group in (10, 100)]
    assert list(store.read(tables, 1, "n", keys)) == [keys[1]]
    assert kept in store.applied(tables, own)
    release(opening)


def test_the_room_of_folded_deltas_is_used_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was free when autovacuum came by, and had grown to many times the state by then."""
    monkeypatch.setattr(versions, "CLEANED_ROWS", 2_000)
    opening, backend = opened(dsn)
    for epoch in range(40):
        for key in range(500):
            backend.at(key).n.update(epoch)
        complete(backend)
    query = f"""
    SELECT sum(pg_relation_size(oid)) FROM pg_class
    WHERE relname LIKE '%_delta' AND relnamespace = '"{schema_of(dsn)}"'::regnamespace
    """
    ((size_bytes,),) = asked(dsn, query)
    assert size_bytes < 1_000_000  # all 20,000 deltas take twice as much
    release(opening)
