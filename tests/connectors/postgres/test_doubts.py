"""Prepared transactions of a job that stay in doubt for long are a problem that it tells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainstay.state.backends.external import lookout
from tests.connectors.postgres.test_state_crashes import CountedJob
from tests.drive.ledger import await_until
from tests.services.postgres import asked

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]

VOTES = "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'mainstay_%_state_%'"
PART = "has had prepared transactions in doubt"


@pytest.fixture(autouse=True)
def told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "LONG_S", 0.2)
    monkeypatch.setattr(lookout, "AGAIN_S", 0.1)


@contextmanager
def second_subtask_held(counted: CountedJob) -> Iterator[None]:
    """A client locks a row of the second subtask: it cannot vote, and no epoch is complete."""
    row = f"SELECT k FROM {counted.table()} WHERE get_byte(k, 1) >= 64 LIMIT 1 FOR UPDATE"
    with psycopg.connect(counted.dsn) as client:
        client.execute(row)
        yield


def told(job: Any) -> list[str]:
    return [str(problem) for problem in job.problems() if PART in str(problem)]


def test_votes_that_stay_in_doubt_are_told_until_they_are_settled(dsn: str, tmp_path: Path) -> None:
    counted = CountedJob(dsn, tmp_path, "prepared")
    counted.begin()
    with second_subtask_held(counted):
        counted.more()
        (problem,) = await_until(lambda: told(counted.job), "the job tells what is in doubt")
        ((name,),) = asked(dsn, VOTES)
    assert problem.startswith(f"operator 'nth' {PART} (1) for ")
    assert "cannot vacuum" in problem
    assert f"ROLLBACK PREPARED '{name}'" in problem
    counted.check()
    await_until(lambda: not told(counted.job), "nothing is in doubt any more")
    counted.finish()


def test_the_remedy_that_is_told_loses_nothing(dsn: str, tmp_path: Path) -> None:
    counted = CountedJob(dsn, tmp_path, "prepared")
    counted.begin()
    with second_subtask_held(counted):
        counted.more()
        (problem,) = await_until(lambda: told(counted.job), "the job tells what is in doubt")
        asked(dsn, "ROLLBACK PREPARED " + problem.rpartition("ROLLBACK PREPARED ")[2])
        await_until(lambda: not told(counted.job), "nothing is in doubt any more")
    counted.check()
    counted.finish()
