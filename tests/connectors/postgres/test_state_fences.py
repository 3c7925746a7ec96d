"""A write of an attempt that was replaced, and the next attempt that has to get past it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

import mainstay as ms
from mainstay.connectors.postgres.states import fencing
from mainstay.connectors.postgres.states.store import PostgresStore
from mainstay.errors import MainstayError
from mainstay.state.backends.external import own_tables
from mainstay.state.backends.external.votes import FenceHeldError
from mainstay.state.declaration import ListState, ValueState
from tests.connectors.postgres.test_states import check, environment, schema_of, state_in
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.drive.ledger import PATIENCE_S, await_until, complete_epochs
from tests.services.postgres import asked

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

STATES = {"n": ValueState("long"), "l": ListState("long")}
PROTOCOLS = ("logged", "versioned", "prepared")
COUNT = 8_000


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "WAIT_MS", 100)


@pytest.fixture(params=PROTOCOLS)
def opening(dsn: str, request: pytest.FixtureRequest) -> Iterator[OpenBackend]:
    opened = OpenBackend(state_in(dsn, protocol=request.param))
    yield opened
    for member in opened.opened:
        member.release()


@contextmanager
def asleep_inside_a_write() -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first write stops before its row of the ledger, with a transaction open: that it has
    come there, and that it may go on."""
    right, first = PostgresStore._note, threading.Lock()
    is_there, may_go_on = threading.Event(), threading.Event()

    def late(self: Any, *arguments: Any) -> None:
        if first.acquire(blocking=False):
            is_there.set()
            assert may_go_on.wait(PATIENCE_S)
        right(self, *arguments)

    with patch.object(PostgresStore, "_note", late):
        yield is_there, may_go_on


def committed(backend: BackendUnderTest, number: int) -> Any:
    backend.at(1).n.update(number)
    backend.at(1).l.add(number)
    cut = backend.freeze()
    epoch = backend.write(cut)
    backend.keyed.backend.on_complete(backend.epoch)
    return epoch


def test_a_write_that_is_asleep_is_ended_and_the_next_attempt_does_it_again(
    dsn: str, opening: OpenBackend
) -> None:
    old = opening(STATES, "long")
    epoch = committed(old, 1)
    old.tend()
    raised: list[Exception] = []
    with asleep_inside_a_write() as (is_there, may_go_on):
        writing = in_thread(lambda: write_on(old, raised))
        assert is_there.wait(PATIENCE_S)
        new = opening.reopen(STATES, epoch, "long")
        assert new.at(1).l.get() == [1]
        epoch = committed(new, 3)
        new.tend()
        may_go_on.set()
        writing.join(PATIENCE_S)
    assert "terminating connection" in str(raised[0]) or "closed" in str(raised[0])
    (last,) = opening.restore(STATES, [epoch], key="long")
    assert (last.at(1).n.get(), last.at(1).l.get()) == (3, [1, 3])
    rows = asked(dsn, f'SELECT segment FROM "{schema_of(dsn)}".mainstay_state_ledger')
    assert len(rows) == len(set(rows))


def write_on(backend: BackendUnderTest, raised: list[Exception]) -> None:
    try:
        committed(backend, 2)
        backend.tend()
    except MainstayError as error:
        raised.append(error)


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    begun = threading.Thread(target=work)
    begun.start()
    return begun


@contextmanager
def held_by_somebody(dsn: str) -> Iterator[None]:
    """A transaction that nobody knows anything of holds the fence."""
    fence = f'"{schema_of(dsn)}".mainstay_state_fence'
    with psycopg.connect(dsn) as connection:
        connection.execute(f"SELECT attempt FROM {fence} FOR SHARE").fetchall()
        yield
        connection.rollback()


def test_a_fence_that_stays_held_is_no_end_for_good(
    dsn: str, opening: OpenBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_tables, "TRIES", 6)
    old = opening(STATES, "long")
    epoch = committed(old, 1)
    old.tend()
    with (
        held_by_somebody(dsn),
        pytest.raises(
            FenceHeldError, match=r"of the state of operator 'totals' is under way: no"
        ) as held,
    ):
        opening.reopen(STATES, epoch, "long")
    assert not held.value.is_final
    assert opening.reopen(STATES, epoch, "long").at(1).l.get() == [1]


def test_a_job_whose_fence_is_held_tries_again_and_loses_nothing(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_tables, "TRIES", 2)
    job = environment(dsn, tmp_path, count=COUNT).start("seen")
    await_until(lambda: complete_epochs(job) > 2, "there are epochs")
    job.stop(timeout=PATIENCE_S)
    with held_by_somebody(dsn):
        env = environment(dsn, tmp_path, count=COUNT, restore="latest")
        env.restart = ms.Restart()
        again = env.start("seen")
        await_until(again.failures, "an attempt has failed")
    assert again.wait(PATIENCE_S) == "finished"
    assert "a write of another attempt of the state of operator 'seen'" in again.failures()[0].cause
    check(dsn, COUNT)
