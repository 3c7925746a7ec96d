"""A stop of a job whose function has turned slow, between real processes."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from mainstay.drive.remote_job import RemoteJob
from tests.drive.ledger import PATIENCE_S, Ledger, LedgerJob, await_until
from tests.drive.test_unaligned import in_flight

COUNT = 30_000
SLOW_FROM = 10_000


class TurnsSlow(Ledger):
    """Quick at first; from some row on it takes its time, while there is a file that says so."""

    def __init__(self, folder: Path) -> None:
        self.sign = folder / "slow"

    def process(self, row: Any, ctx: Any) -> Any:
        if row.id >= SLOW_FROM and self.sign.exists():
            time.sleep(0.05)
        return super().process(row, ctx)


def ledger_of(folder: Path, workers: int) -> LedgerJob:
    return LedgerJob(
        folder, count=COUNT, per_second=1e6, workers=workers, function=TurnsSlow(folder)
    )


def await_line(job: RemoteJob) -> None:
    """Until rows wait that take much longer than a marker needs to arrive."""
    await_until(
        lambda: any(each.waiting_rows * each.row_s > 1.0 for each in job.metrics().values()),
        "a second's work is in line",
    )


@pytest.mark.parametrize("workers", [2, 3], ids=["the_same", "another"])
def test_a_stop_stores_the_rows_in_line_and_a_start_at_this_parallelism_takes_them(
    workers: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "slow").touch()
    ledger = ledger_of(tmp_path, 2)
    job = ledger.start(halt_alignment_s=0.0)
    await_line(job)
    with caplog.at_level(logging.INFO, "mainstay"):
        job.stop(timeout=PATIENCE_S)
    assert job.wait(PATIENCE_S) == "stopped"
    assert in_flight(ledger)
    last = job.snapshots()[-1]
    assert last.is_unaligned
    assert f"holds {last.in_flight_rows:,} in-flight rows" in caplog.text

    (tmp_path / "slow").unlink()
    again = ledger_of(tmp_path, workers)
    assert again.start(restore="latest").wait(PATIENCE_S) == "finished"
    again.check()


def test_a_rescale_stores_the_rows_in_line_and_goes_on_with_them(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    ledger = ledger_of(tmp_path, 2)
    job = ledger.start(halt_alignment_s=0.0)
    await_line(job)
    job.rescale(3, PATIENCE_S)
    assert any(record.in_flight_rows for record in job.snapshots())
    (tmp_path / "slow").unlink()
    assert job.wait(PATIENCE_S) == "finished"
    ledger.check()


def test_a_savepoint_holds_no_row_that_was_in_line(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    ledger = ledger_of(tmp_path, 2)
    job = ledger.start(halt_alignment_s=0.0)
    await_line(job)
    (tmp_path / "slow").unlink()
    job.stop(tmp_path / "saved", timeout=PATIENCE_S)
    assert not in_flight(ledger)
    assert not any(record.in_flight_rows for record in job.snapshots())
