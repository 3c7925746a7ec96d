"""The check of state in a database can fail: violations are planted, and each is noticed.

A real job has written a real database, and every violation is planted there by SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainstay.connectors.postgres.states.voting import prefix_of
from mainstay.snapshot.history import Begin
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.backends.external.store import TableSet
from tests.drive.ledger import PATIENCE_S
from tests.ha.external_histories import Log, check_end, check_look, check_order
from tests.ha.external_job import UID, external_job, schema_of
from tests.ha.external_looks import Client, Seen
from tests.services.postgres import ServiceMissing, asked, shared

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("drivers")]

COUNT = 2_000
KEPT = 1_000
"""Epochs: no manifest is deleted."""
PROTOCOLS = ("logged", "versioned", "prepared")
ONE_VERSION = ("logged", "prepared")


@dataclass(frozen=True)
class Past:
    """A job that has finished, with its log and a client of its database."""

    client: Client
    log: Log
    schema: str

    def look(self) -> Seen:
        seen = self.client.look()
        assert seen is not None
        return seen

    def planted(self, *statements: str) -> Seen:
        """What a client sees with something else in the database, which is taken out again."""
        with psycopg.connect(self.client.dsn) as connection:
            connection.execute(f'SET search_path = "{self.schema}"')
            for statement in statements:
                assert connection.execute(statement).rowcount != 0, f"{statement} changes nothing"
            seen = self.client.look_by(connection)
            connection.rollback()
        assert seen is not None
        return seen

    def table(self, state: str) -> str:
        query = f"SELECT name FROM \"{self.schema}\".mainstay_state_tables WHERE state = '{state}'"
        ((name,),) = asked(self.client.dsn, query)
        return f'"{name}"'


_PASTS: dict[str, Past] = {}


@pytest.fixture
def past(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Past]:
    """The job of a protocol, which is run once for all tests."""
    try:
        server = shared()
    except ServiceMissing as missing:
        pytest.skip(str(missing))

    def of(protocol: str) -> Past:
        if protocol not in _PASTS:
            folder = tmp_path_factory.mktemp(protocol)
            _PASTS[protocol] = run(folder, protocol, server.schema())
        return _PASTS[protocol]

    return of


def run(folder: Path, protocol: str, dsn: str) -> Past:
    job = external_job(folder, protocol, dsn, count=COUNT, per_second=COUNT / 2)
    # Without a base the ledger forgets nothing: there are rows to be spoilt.
    started = job.start(retain=KEPT, log_slots=1_000_000, max_chain=1_000)
    assert started.wait(PATIENCE_S, progress=False) == "finished"
    log = Log(open_storage(job.directory), folder, COUNT)
    log.read_on()
    return Past(Client(dsn, protocol), log, schema_of(dsn))


Of = Callable[[str], Past]
LEDGER = "mainstay_state_ledger"
NEWEST = f"(SELECT max(number) FROM {LEDGER})"
BEFORE = f"(SELECT max(number) FROM {LEDGER} WHERE number < {NEWEST})"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_job_that_nothing_has_happened_to_is_right(past: Of, protocol: str) -> None:
    found = past(protocol)
    check_end(found.look(), found.log)
    check_order(found.look(), found.look())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        pytest.param(
            f"INSERT INTO {LEDGER} SELECT lineage, uid, making, 'a1-s0-e999', first_group, "
            f"last_group, 0, 0 FROM {LEDGER} ORDER BY number LIMIT 1",
            "of no complete epoch",
            id="a segment of no epoch",
        ),
        pytest.param(
            f"INSERT INTO {LEDGER} SELECT lineage, uid, making, segment, first_group + 1, "
            f"last_group, epoch, number + 1000 FROM {LEDGER} WHERE number = {NEWEST}",
            "was applied twice",
            id="a segment twice",
        ),
        pytest.param(
            f"DELETE FROM {LEDGER} WHERE number = {BEFORE}",
            r"only .* were applied",
            id="a segment that is missing",
        ),
        pytest.param(
            f"UPDATE {LEDGER} SET epoch = 0 WHERE number = {NEWEST}",
            r"was applied after",
            id="an epoch that goes back",
        ),
        pytest.param(
            f"UPDATE {LEDGER} SET segment = 'a9-' || segment WHERE number = {BEFORE}",
            r"was applied after",
            id="a term that goes back",
        ),
        pytest.param(
            "UPDATE mainstay_state_fence SET attempt = 7",
            "has not begun",
            id="an attempt that has not begun",
        ),
    ],
)
def test_a_ledger_that_does_not_agree_with_the_log_is_noticed(
    past: Of, protocol: str, statement: str, told: str
) -> None:
    found = past(protocol)
    with pytest.raises(AssertionError, match=told):
        check_look(found.planted(statement), found.log)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_segment_that_was_never_applied_is_noticed_at_the_end(past: Of, protocol: str) -> None:
    found = past(protocol)
    seen = found.planted(f"DELETE FROM {LEDGER} WHERE number = {NEWEST}")
    with pytest.raises(AssertionError, match="were never applied"):
        check_end(seen, found.log)


@pytest.mark.parametrize("protocol", ONE_VERSION)
@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("count", "UPDATE {} SET value = value + 1 WHERE key = 5"),
        ("newest", "UPDATE {} SET value = value - 97 WHERE key = 5 AND map_key = 1"),
        ("newest", "DELETE FROM {} WHERE key = 5 AND map_key = 1"),
        ("seen", "DELETE FROM {0} WHERE key = 5 AND s = (SELECT max(s) FROM {0} WHERE key = 5)"),
        ("seen", "UPDATE {0} SET value = value || value WHERE key = 5"),
    ],
)
def test_a_row_that_was_changed_is_noticed(
    past: Of, protocol: str, state: str, change: str
) -> None:
    found = past(protocol)
    seen = found.planted(change.format(found.table(state)))
    with pytest.raises(AssertionError, match=f"{state} of key 5 is .*, and not"):
        check_look(seen, found.log)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_table_that_was_left_behind_is_noticed(past: Of, protocol: str) -> None:
    found = past(protocol)
    with pytest.raises(AssertionError, match=r"forgotten_a1.* were left behind"):
        check_end(found.planted("CREATE TABLE forgotten_a1 (k bytea)"), found.log)
    other = (
        "INSERT INTO mainstay_state_tables SELECT lineage, uid, 'a7', state || '2', name "
        "FROM mainstay_state_tables"
    )
    with pytest.raises(AssertionError, match="several makings"):
        check_end(replace(found.look(), makings=found.planted(other).makings), found.log)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fence_that_goes_back_is_noticed(past: Of, protocol: str) -> None:
    found = past(protocol)
    seen = found.planted("UPDATE mainstay_state_fence SET attempt = attempt - 1")
    with pytest.raises(AssertionError, match="the fence went from 1 to 0"):
        check_order(found.look(), seen)
    with pytest.raises(AssertionError, match="attempt 0 is admitted, and not 1"):
        check_end(seen, found.log)


# ---------------------------------------------------------------- votes


@pytest.fixture
def in_doubt(past: Of) -> Iterator[Callable[[int], None]]:
    """Prepares a transaction under the name of a vote."""
    found = past("prepared")
    (begin,) = [record for record in found.log.records if isinstance(record, Begin)]
    prefix = prefix_of(TableSet(begin.lineage, UID))
    made: list[str] = []

    def prepare(attempt: int) -> None:
        made.append(f"{prefix}m_a{attempt}_g0-63_e3")
        with psycopg.connect(found.client.dsn) as connection:
            connection.execute(f"PREPARE TRANSACTION '{made[-1]}'")

    yield prepare
    for name in made:
        asked(found.client.dsn, f"ROLLBACK PREPARED '{name}'")


def test_a_vote_that_is_in_doubt_at_the_end_is_noticed(past: Of, in_doubt: Any) -> None:
    found = past("prepared")
    in_doubt(1)
    check_look(found.look(), found.log)
    with pytest.raises(AssertionError, match="are in doubt"):
        check_end(found.look(), found.log)


def test_a_vote_of_an_attempt_that_was_replaced_is_noticed(past: Of, in_doubt: Any) -> None:
    found = past("prepared")
    in_doubt(0)
    with pytest.raises(AssertionError, match="is in doubt, and 1 was admitted"):
        check_look(found.look(), found.log)


# ---------------------------------------------------------------- versions


def test_a_view_that_shows_something_else_is_noticed(past: Of) -> None:
    found = past("versioned")
    delta = found.table("count").strip('"') + "_delta"
    for change in (
        f'UPDATE "{delta}" SET value = value + 1 WHERE key = 5',
        f'DELETE FROM "{delta}" WHERE key = 5 AND number = '
        f'(SELECT max(number) FROM "{delta}" WHERE key = 5)',
    ):
        with pytest.raises(AssertionError, match=r"count of key 5 is .*, and not"):
            check_look(found.planted(change), found.log)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE mainstay_state_pointer SET epoch = 999", "999 is shown, and is not complete"),
        ("UPDATE mainstay_state_pointer SET epoch = epoch - 1", "beyond the pointer"),
        (
            "INSERT INTO mainstay_state_epochs SELECT lineage, uid, making, 0 "
            "FROM mainstay_state_pointer",
            "0 is shown, and is not complete",
        ),
    ],
)
def test_a_pointer_to_what_is_not_complete_is_noticed(past: Of, change: str, told: str) -> None:
    found = past("versioned")
    with pytest.raises(AssertionError, match=told):
        check_look(found.planted(change), found.log)


def test_a_pointer_that_goes_back_is_noticed(past: Of) -> None:
    found = past("versioned")
    seen = found.planted("UPDATE mainstay_state_pointer SET epoch = epoch - 1")
    with pytest.raises(AssertionError, match="the pointer went from"):
        check_order(found.look(), seen)


def test_progress_of_an_attempt_that_was_replaced_is_noticed(past: Of) -> None:
    found = past("versioned")
    seen = found.planted("UPDATE mainstay_state_progress SET attempt = 0 WHERE first_group = 0")
    with pytest.raises(AssertionError, match="progress is of attempts"):
        check_end(seen, found.log)
