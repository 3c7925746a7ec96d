"""Live state of jobs on plain processes: answered by the owner, refused while nobody runs."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from mainstay.errors import QueryError
from tests.drive.ledger import KEYS, PATIENCE_S, LedgerJob, await_until, complete_epochs


def asked_of(job: Any) -> int:
    """The attempt that answers; 0 while none does."""
    try:
        return int(job.query("ledger.seen", key=1).moment.attempt)
    except QueryError:
        return 0


def test_the_owners_of_keys_answer_and_a_killed_worker_is_survived(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=20_000, per_second=2_000.0)
    job = ledger.start()
    await_until(lambda: complete_epochs(job) >= 1, "an epoch is complete")
    keys = list(range(KEYS))
    first = job.query("ledger.seen", keys=keys).values()
    assert sum(map(len, first.values())) > 0
    assert all(id % KEYS == key for key, ids in first.items() for id in ids)
    later = job.query("ledger.seen", keys=keys).values()
    assert all(later[key][: len(ids)] == ids for key, ids in first.items())
    os.kill(next(iter(job.workers().values()))[1], signal.SIGKILL)
    await_until(lambda: len(job.attempts()) == 2, "another attempt has begun")
    await_until(lambda: asked_of(job) == 2, "the next attempt answers")
    committed = job.query("ledger.seen", keys=keys, at="committed")
    assert committed.moment.level == "committed"
    assert job.wait(PATIENCE_S) == "finished"
    with pytest.raises(QueryError, match="is over, so there is no live state"):
        job.query("ledger.seen", key=1)
    last = job.query("ledger.seen", keys=keys, at="committed").values()
    assert sorted(id for ids in last.values() for id in ids) == list(range(20_000))


def test_a_storm_of_queries_makes_no_epoch_late(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=6_000, per_second=2_000.0)
    job = ledger.start()
    await_until(lambda: complete_epochs(job) >= 1, "an epoch is complete")
    answers: list[int] = []
    refusals: list[str] = []

    def ask() -> None:
        while not job.is_over:
            try:
                answers.append(job.query("ledger.seen", keys=range(KEYS)).table.num_rows)
            except QueryError as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert job.wait(PATIENCE_S) == "finished"
    for thread in threads:
        thread.join()
    assert len(answers) > 20
    # Only when the job was about to end.
    assert len(refusals) < len(answers)
    assert not [each for each in job.snapshots() if each.status == "failed"]
    ledger.check()
