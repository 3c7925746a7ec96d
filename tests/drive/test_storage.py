"""Storage that fails under a running job: epochs are given up, then attempts, then the job."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import JobFailedError
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt, await_until


def failed_epochs(job: RemoteJob) -> int:
    return sum(record.status == "failed" for record in job.snapshots())


def put_a_file_in_the_place_of(folder: Path) -> Path:
    away, again = folder.with_name("away"), folder.with_name("again")
    folder.rename(away)
    while True:
        try:
            folder.touch(exist_ok=False)
            return away
        except FileExistsError:
            # A write was quicker and made the folder anew: what it holds goes with the rest.
            folder.rename(again)
            shutil.copytree(again, away, dirs_exist_ok=True)
            shutil.rmtree(again)


def test_storage_that_breaks_for_good_ends_the_job_with_a_clear_error(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=10_000_000)
    job = ledger.start(tolerable_failures=2, max_failures=2)
    await_attempt(job, 1, 3)
    put_a_file_in_the_place_of(Path(ledger.directory))
    with pytest.raises(JobFailedError) as raised:
        job.wait(PATIENCE_S)
    assert ledger.directory in str(raised.value)
    first, *_ = job.attempts()
    assert "3 epochs in a row failed" in first.reason
    assert ledger.directory in first.reason


def test_epochs_that_fail_for_a_while_are_made_up_for(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=16_000, per_second=5_000.0)
    job = ledger.start(tolerable_failures=1_000)
    await_attempt(job, 1, 3)
    away = put_a_file_in_the_place_of(Path(ledger.directory))
    await_until(lambda: failed_epochs(job) >= 2, "two epochs have failed")
    Path(ledger.directory).unlink()
    away.rename(ledger.directory)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    ledger.check()


def test_an_attempt_that_failed_for_its_storage_is_followed_by_one_that_finishes(
    tmp_path: Path,
) -> None:
    ledger = LedgerJob(tmp_path, count=16_000, per_second=5_000.0)
    job = ledger.start(tolerable_failures=1)
    await_attempt(job, 1, 3)
    away = put_a_file_in_the_place_of(Path(ledger.directory))
    await_until(lambda: job.attempts()[0].ended_at is not None, "the attempt has failed")
    Path(ledger.directory).unlink()
    away.rename(ledger.directory)
    assert job.wait(PATIENCE_S) == "finished"
    assert "2 epochs in a row failed" in job.attempts()[0].reason
    ledger.check()
