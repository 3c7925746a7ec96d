"""Several drivers of a job with its state in PostgreSQL: killed and frozen, and the state is exact.

Log, sink and files are checked at the end, the database at every moment in between as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.state.backends.external.store import TableSet
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_until, complete_epochs
from tests.ha.external_drivers import ExternalDrivers, trouble
from tests.ha.external_job import Kept, schema_of
from tests.services.postgres import asked

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("drivers")]

PROTOCOLS = ("logged", "versioned", "prepared")
FEW, MANY = 6_000, 48_000
"""Ids of a short test, and of one that runs for minutes."""
Started = Callable[..., ExternalDrivers]


@pytest.fixture
def external(dsn: str, tmp_path: Path) -> Iterator[Started]:
    made: list[ExternalDrivers] = []

    def start(protocol: str, count: int, origin: str | None = None) -> ExternalDrivers:
        made.append(ExternalDrivers(tmp_path, protocol, dsn, count, origin))
        return made[-1]

    yield start
    for drivers in made:
        for driver in drivers.alive:
            driver.kill()


@pytest.mark.parametrize(
    "protocol", ["prepared", pytest.param("versioned", marks=pytest.mark.soak)]
)
def test_a_leader_is_killed_and_the_database_agrees_with_the_log(
    external: Started, protocol: str
) -> None:
    trouble(external(protocol, FEW), kills=1, freezes=0)


def test_a_leader_is_frozen_with_its_workers_and_the_database_agrees_with_the_log(
    external: Started,
) -> None:
    trouble(external("logged", FEW), kills=0, freezes=1)


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_leader_that_dies_while_it_loads_a_savepoint_leaves_no_tables_behind(
    external: Started, dsn: str, tmp_path: Path, protocol: str
) -> None:
    savepoint = saved(tmp_path / "before")
    drivers = external(protocol, FEW, savepoint)
    with nobody_can_write_the_ledger(dsn, protocol) as holds:
        leader = drivers.start()
        await_until(lambda: makings(dsn), "tables were made", drivers.patience_s)
        drivers.start_as_always()
        drivers.kill(leader)
        assert drivers.epoch == 0
        assert makings(dsn) == [made(1, protocol)]
        holds.rollback()
    drivers.leader()
    drivers.look()
    drivers.await_end()
    drivers.ledger.check_state()
    drivers.check_database()
    assert makings(dsn) == [made(drivers.log.attempt, protocol)]


def made(attempt: int, protocol: str) -> str:
    """What the tables are called that an attempt has made."""
    return f"va{attempt}" if protocol == "versioned" else f"a{attempt}"


def saved(folder: Path) -> str:
    """A savepoint of the same job in the middle, with its state in memory."""
    folder.mkdir()
    job = LedgerJob(folder, count=FEW, per_second=FEW / 4, workers=2, function=Kept(FEW))
    started = job.start()
    await_until(lambda: complete_epochs(started) > 2, "there are epochs")
    place = str(folder / "savepoint")
    started.stop(place, timeout=PATIENCE_S)
    return place


@contextmanager
def nobody_can_write_the_ledger(dsn: str, protocol: str) -> Iterator[Any]:
    """Tables are made, and then nothing goes on until the transaction that is given ends."""
    store = ms.Postgres(dsn, protocol, schema=schema_of(dsn))._store()
    store.fence(TableSet("another job", "another operator"), 1, [], is_known=False)
    store.close()
    with psycopg.connect(dsn) as connection:
        connection.execute(f'LOCK TABLE "{schema_of(dsn)}".mainstay_state_ledger')
        yield connection


def makings(dsn: str) -> list[str]:
    query = f'SELECT DISTINCT making FROM "{schema_of(dsn)}".mainstay_state_tables'
    return [making for (making,) in asked(dsn, query)]


@pytest.mark.soak
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_many_leaders_are_killed_and_frozen_and_the_database_agrees_with_the_log(
    external: Started, protocol: str
) -> None:
    trouble(external(protocol, MANY), kills=20, freezes=10)
