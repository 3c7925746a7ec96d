"""Savepoints, stops and rescales of jobs whose workers are processes, with exact results."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from mainstay.errors import SavepointError
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import KEYS, PATIENCE_S, LedgerJob, await_attempt, await_until


def test_rescaled_stopped_moved_and_restored_elsewhere(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=9_000, per_second=900.0)
    job = ledger.start()
    await_attempt(job, 1, 3)
    assert job.parallelism == 3
    job.rescale(2, PATIENCE_S)
    assert (job.status, job.parallelism, len(job.workers())) == ("running", 2, 2)
    await_attempt(job, 2, 2)
    assert job.stop(tmp_path / "saved", timeout=PATIENCE_S) == str(tmp_path / "saved")
    assert job.wait(PATIENCE_S) == "stopped"
    assert [record.reason for record in job.attempts()] == ["rescaled", "stopped"]

    moved = shutil.move(tmp_path / "saved", tmp_path / "moved")
    shutil.rmtree(ledger.directory)
    other = LedgerJob(tmp_path, count=9_000, per_second=3_000.0, workers=4)
    restored = other.start(origin=str(moved))
    await_attempt(restored, 1, 4)
    # From its first epoch on it needs nothing but its own directory.
    shutil.rmtree(moved)
    assert restored.wait(PATIENCE_S) == "finished"
    other.check()


def test_a_savepoint_of_a_running_job_is_the_beginning_of_another(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=12_000, per_second=1_500.0)
    job = ledger.start()
    pids = await_attempt(job, 1, 3)
    await_until(lambda: bool(ledger.shelf.ids()), "some rows are committed")
    path = job.savepoint(tmp_path / "saved", PATIENCE_S)
    with pytest.raises(SavepointError, match=r"something at .* already"):
        job.savepoint(path, PATIENCE_S)
    os.kill(pids[0], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    ledger.check()

    (tmp_path / "fork").mkdir()
    fork = LedgerJob(tmp_path / "fork", count=12_000, per_second=4_000.0, workers=2)
    assert fork.start(origin=path).wait(PATIENCE_S) == "finished"
    state = committed_state(open_storage(fork.directory), fork.spec, "ledger", "seen")
    assert {key: sorted(ids) for key, ids in state.items()} == fork.expected()
    assert 0 < len(fork.shelf.ids()) < 12_000, "what the first job had put out is not put out again"
    assert len(state) == KEYS


def test_a_stopped_job_goes_on_in_its_own_directory(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=6_000, per_second=1_500.0)
    job = ledger.start()
    await_attempt(job, 1, 3)
    assert job.stop(drain=True, timeout=PATIENCE_S) is None
    assert job.status == "stopped"
    again = LedgerJob(tmp_path, count=6_000, per_second=3_000.0, workers=2)
    assert again.start(restore="latest").wait(PATIENCE_S) == "finished"
    again.check()
