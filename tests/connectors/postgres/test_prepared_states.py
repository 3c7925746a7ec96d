"""Keyed state in PostgreSQL by two-phase commit, and a real server: what is left in doubt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import mainstay as ms
from mainstay.connectors.bases.transactions import TransactionId
from mainstay.connectors.postgres.states.voting import VotingPostgresStore, name_of, vote_of
from mainstay.errors import FencedError, MainstayError
from mainstay.snapshot.since import NOTHING_YET, Since
from mainstay.state.backends.external.store import TableSet
from mainstay.state.backends.external.votes import Vote
from mainstay.state.declaration import ListState, ValueState
from mainstay.state.keygroups import KeyGroupRange
from tests.connectors.postgres.test_states import (
    COUNT,
    Ids,
    Seen,
    check,
    schema_of,
    state_in,
    table_of,
    with_state,
)
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.drive.ledger import PATIENCE_S, await_until, complete_epochs
from tests.edges import kill_workers, start
from tests.services.postgres import PostgresServer, ServiceMissing, asked
from tests.services.postgres import name_of as job_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

STATES = {"n": ValueState("long"), "l": ListState("long")}
VOTES = "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'mainstay_%_state_%'"


def prepared_in(dsn: str, **more: Any) -> Any:
    return state_in(dsn, protocol="prepared", **more)


def environment(dsn: str, path: Path, **more: Any) -> Any:
    return with_state(prepared_in(dsn, cache="1MiB"), path, **more)


def in_doubt(dsn: str) -> list[str]:
    return [name for (name,) in asked(dsn, VOTES)]


@pytest.fixture
def opening(dsn: str) -> Iterator[OpenBackend]:
    """Opens backends by hand, each of them the next attempt."""
    opened = OpenBackend(prepared_in(dsn))
    yield opened
    for member in opened.opened:
        member.release()


def voted(backend: BackendUnderTest) -> Any:
    """An epoch that the database has voted for, and that nobody has completed."""
    cut = backend.freeze()
    epoch = backend.write(cut)
    while not backend.keyed.backend.has_voted(backend.epoch):
        backend.tend(1)
    return epoch


def is_committed(opening: OpenBackend, backend: BackendUnderTest) -> None:
    """The next attempt starts from the last epoch of a backend, which the log has."""
    opening.since = Since(backend.epoch, backend.keyed.owner.attempt)


# ---------------------------------------------------------------- jobs


def test_a_job_leaves_its_tables_whole_and_nothing_in_doubt(dsn: str, tmp_path: Path) -> None:
    job = environment(dsn, tmp_path).start("seen")
    await_until(lambda: in_doubt(dsn), "the database has voted")
    assert job.wait(PATIENCE_S) == "finished"
    check(dsn)
    assert in_doubt(dsn) == []


def test_a_worker_that_is_killed_with_a_vote_in_doubt_loses_and_doubles_nothing(
    dsn: str, tmp_path: Path
) -> None:
    def build(env: Any) -> None:
        rows = env.source(Ids(COUNT, 1_000.0), uid="ids").key_by("k")
        rows.process(Seen(), "k long, id long", uid="seen").sink(ms.connectors.Memory(), uid="out")

    state = prepared_in(dsn, cache="1MiB")
    name = job_of(dsn)
    job = start(build, tmp_path, name=name, drive="processes", max_failures=4, state=state)
    kill_workers(job, 1, moment=lambda _: await_until(lambda: in_doubt(dsn), "a vote is in doubt"))
    assert job.wait(2 * PATIENCE_S) == "finished"
    assert len(job.attempts()) == 2
    check(dsn)
    assert in_doubt(dsn) == []


def crash_the_server(server: PostgresServer, dsn: str, tmp_path: Path, rounds: int) -> None:
    count = COUNT * rounds
    job = environment(dsn, tmp_path, count=count).start("seen")
    crashes = 0
    # On a machine that is busy the job may come to its end before all rounds are over.
    while crashes < rounds and job.status != "finished":
        epochs = complete_epochs(job) + 2
        await_until(
            lambda: job.status == "finished" or (complete_epochs(job) >= epochs and in_doubt(dsn)),  # noqa: B023
            "a vote is in doubt, some epochs later",
        )
        server.stop("immediate")
        server.start()
        crashes += 1
    assert job.wait(4 * PATIENCE_S) == "finished"
    check(dsn, count)
    assert in_doubt(dsn) == []


def test_a_server_that_crashes_with_votes_in_doubt_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=1)


@pytest.mark.soak
def test_a_server_that_crashes_with_votes_in_doubt_again_and_again_loses_and_doubles_nothing(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    crash_the_server(server, dsn, tmp_path, rounds=15)


def test_epochs_wait_for_a_server_that_is_away(
    server: PostgresServer, dsn: str, tmp_path: Path
) -> None:
    job = with_state(prepared_in(dsn), tmp_path).start("seen")
    await_until(lambda: complete_epochs(job) >= 3, "epochs are complete")
    server.stop("immediate")
    try:
        problem = await_until(job.problems, "the job says what it waits for")[0]
        assert "cannot reach the database of its state" in str(problem)
        assert job.status == "running"
    finally:
        server.start()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    assert not job.problems()
    check(dsn)


def test_a_job_that_is_rescaled_settles_the_votes_of_other_key_groups(
    dsn: str, tmp_path: Path
) -> None:
    job = environment(dsn, tmp_path).start("seen")
    for parallelism in (3, 2):
        epochs = complete_epochs(job) + 2
        await_until(lambda: complete_epochs(job) >= epochs, "epochs are complete")  # noqa: B023
        job.rescale(parallelism, PATIENCE_S)
    assert job.wait(PATIENCE_S) == "finished"
    check(dsn)
    assert in_doubt(dsn) == []


# ---------------------------------------------------------------- votes


def with_a_complete_epoch(opening: OpenBackend) -> tuple[BackendUnderTest, Any]:
    """An attempt that has completed an epoch, and that epoch."""
    old = opening(STATES, "long")
    old.at(1).n.update(1)
    epoch = voted(old)
    old.keyed.backend.on_complete(old.epoch)
    old.tend()
    is_committed(opening, old)
    return old, epoch


def test_the_next_attempt_commits_what_is_complete(dsn: str, opening: OpenBackend) -> None:
    old = opening(STATES, "long")
    old.at(1).n.update(1)
    epoch = voted(old)
    assert len(in_doubt(dsn)) == 1
    is_committed(opening, old)
    new = opening.reopen(STATES, epoch, "long")
    assert in_doubt(dsn) == []
    assert not new.keyed.backend.not_absorbed
    assert new.at(1).n.get() == 1


def test_the_next_attempt_rolls_back_what_is_not(dsn: str, opening: OpenBackend) -> None:
    old = opening(STATES, "long")
    old.at(1).l.add(1)
    epoch = voted(old)
    old.keyed.backend.on_complete(old.epoch)
    old.tend()
    is_committed(opening, old)
    old.at(1).l.add(2)
    voted(old)
    new = opening.reopen(STATES, epoch, "long")
    assert in_doubt(dsn) == []
    assert new.at(1).l.get() == [1]


def test_a_vote_that_somebody_rolled_back_by_hand_is_applied_again(
    dsn: str, opening: OpenBackend
) -> None:
    backend = opening(STATES, "long")
    backend.at(1).l.add(1)
    voted(backend)
    (name,) = in_doubt(dsn)
    asked(dsn, f"ROLLBACK PREPARED '{name}'")
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    assert not backend.keyed.backend.not_absorbed
    assert backend.at(1).l.get() == [1]


def test_a_zombie_cannot_prepare_after_the_next_attempt_was_admitted(
    dsn: str, opening: OpenBackend
) -> None:
    old, epoch = with_a_complete_epoch(opening)
    new = opening.reopen(STATES, epoch, "long")
    old.at(1).n.update(2)
    with pytest.raises(FencedError, match="a newer one has taken over"):
        old.snapshot()
    assert in_doubt(dsn) == []
    assert new.at(1).n.get() == 1


def test_a_zombie_that_is_just_preparing_leaves_nothing_behind(
    dsn: str, opening: OpenBackend
) -> None:
    old, epoch = with_a_complete_epoch(opening)
    old.at(1).n.update(2)
    old.freeze()
    looked, may_prepare = threading.Event(), threading.Event()
    preparing = thread(lambda: prepare_late(old, looked, may_prepare))
    assert looked.wait(PATIENCE_S)
    found: list[BackendUnderTest] = []
    admitting = thread(lambda: found.append(opening.reopen(STATES, epoch, "long")))
    await_until(lambda: asked(dsn, WAITS), "the new attempt waits for the fence")
    may_prepare.set()
    preparing.join(PATIENCE_S)
    admitting.join(PATIENCE_S)
    assert in_doubt(dsn) == []
    assert found[0].at(1).n.get() == 1


WAITS = "SELECT pid FROM pg_locks WHERE NOT granted"


def thread(work: Callable[[], Any]) -> threading.Thread:
    begun = threading.Thread(target=work)
    begun.start()
    return begun


def prepare_late(
    old: BackendUnderTest, looked: threading.Event, may_prepare: threading.Event
) -> None:
    """Vote for the last cut; the transaction has looked at the fence long before it is prepared."""
    right = VotingPostgresStore._prepare

    def late(self: Any, connection: Any, name: str) -> None:
        looked.set()
        assert may_prepare.wait(PATIENCE_S)
        right(self, connection, name)

    with patch.object(VotingPostgresStore, "_prepare", late):
        cut = old.keyed.chain.segments[-1]
        (tables,) = list(old.keyed.encode(cut))[-1:]
        old.keyed.written(cut, old.keyed.write(old.storage, cut.id, tables), tables)
        old.tend()


def test_an_answer_that_is_lost_is_no_second_vote(dsn: str, opening: OpenBackend) -> None:
    backend = opening(STATES, "long")
    backend.at(1).l.add(1)
    voted(backend)
    found = backend.keyed.backend.commits._in_doubt
    backend.keyed.backend.own.prepare(found.vote, found.segments, found.forget_up_to)
    assert len(in_doubt(dsn)) == 1
    backend.keyed.backend.on_abort(backend.epoch)
    backend.tend()
    assert in_doubt(dsn) == []
    backend.at(1).l.add(2)
    voted(backend)
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    assert asked(dsn, f"SELECT count(*) FROM ({VOTES}) v") == [(0,)]
    assert backend.at(1).l.get() == [1, 2]


def test_a_job_that_goes_on_with_the_other_protocol_settles_its_votes(
    dsn: str, opening: OpenBackend
) -> None:
    old = opening(STATES, "long")
    old.at(1).n.update(1)
    epoch = voted(old)
    opening.settings = state_in(dsn)
    opening.since = NOTHING_YET
    new = opening.reopen(STATES, epoch, "long")
    assert in_doubt(dsn) == []
    assert new.at(1).n.get() == 1


# ---------------------------------------------------------------- refusals and names


def test_a_server_that_prepares_nothing_is_refused_with_the_setting() -> None:
    try:
        server = PostgresServer(max_prepared_transactions=0)
    except ServiceMissing as error:
        pytest.skip(str(error))
    try:
        server.start()
        opening = OpenBackend(ms.Postgres(server.dsn, protocol="prepared"))
        backend = opening(STATES, "long")
        with pytest.raises(MainstayError, match=r"allows 0 .* max_prepared_transactions = 64"):
            backend.tend()
        backend.member.release()
    finally:
        server.close()


def test_a_name_says_whose_vote_it_is_in_at_most_200_bytes() -> None:
    tables = TableSet("a job of ours " * 20, "ü" * 300, "a123456")
    vote = Vote(tables, 123456, KeyGroupRange(32000, 32767), 10**12)
    name = name_of(vote)
    assert len(name.encode()) <= 200
    assert vote_of(name, TableSet(tables.lineage, tables.uid)) == vote
    assert TransactionId.parse(name) is None
    assert vote_of(name, TableSet("another job", tables.uid)) is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", ['a "quote"', "a\\b", "", "NULL", "{1,2}", " ü\n"]),
        ("double", [1.5, float("inf"), -0.0]),
        (
            "timestamp",
            [datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(2100, 1, 1, 1, 2, 3, 4)],
        ),
        ("binary", [b"", b"\0\\x"]),
        ("array<string>", [["a,b", '"', None], []]),
        ("struct<a:string,`b%`:boolean>", [("x", True), (None, None)]),
        ("decimal(10,2)", [Decimal("-12.34")]),
    ],
)
def test_rows_are_the_same_as_by_the_other_protocol(dsn: str, kind: str, values: list[Any]) -> None:
    shown = []
    for state in (state_in(dsn), prepared_in(dsn)):
        asked(dsn, f'DROP SCHEMA IF EXISTS "{schema_of(dsn)}" CASCADE')
        backend = OpenBackend(state)({"n": ValueState(kind)}, "long")
        for number, value in enumerate(values):
            backend.at(number).n.update(value)
        voted(backend)
        assert len(in_doubt(dsn)) == len(shown)
        backend.keyed.backend.on_complete(backend.epoch)
        backend.tend()
        shown.append(asked(dsn, f"SELECT * FROM {table_of(dsn, 'n')} ORDER BY k"))
        backend.member.release()
    assert len(shown[0]) == len(values)
    assert shown[0] == shown[1]
