"""Unaligned snapshots between real processes: full queues, kills, and another parallelism."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from mainstay.drive.remote_job import RemoteJob
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import latest_manifest
from tests.drive.ledger import PATIENCE_S, Ledger, LedgerJob, await_attempt, await_until

COUNT = 9_000
WORKERS = 3


class Slow(Ledger):
    """Takes its time over every row, so that rows wait in line."""

    def process(self, row: Any, ctx: Any) -> Any:
        time.sleep(0.0003)
        return super().process(row, ctx)


def slow_ledger(folder: Path, workers: int) -> LedgerJob:
    return LedgerJob(
        folder,
        count=COUNT,
        per_second=1e6,
        workers=workers,
        function=Slow(),
        mode="unaligned",
    )


def rows_on_their_way(ledger: LedgerJob) -> int:
    """Batches that the last epoch holds of channels."""
    manifest = latest_manifest(open_storage(ledger.directory))
    if manifest is None:
        return 0
    return sum(
        units.count
        for operator in manifest.operators.values()
        for subtask in operator.subtasks
        for name, units in subtask.units.items()
        if name.startswith("channels_")
    )


def await_held_rows(ledger: LedgerJob, job: RemoteJob) -> None:
    await_until(
        lambda: rows_on_their_way(ledger) and job.status == "running",
        "an epoch holds rows that were on their way",
    )


def test_rows_on_their_way_survive_kills(tmp_path: Path) -> None:
    ledger = slow_ledger(tmp_path, WORKERS)
    job = ledger.start()
    for attempt in (1, 2):
        pids = await_attempt(job, attempt, WORKERS)
        await_held_rows(ledger, job)
        os.kill(pids[attempt], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 3
    assert any(record.is_unaligned for record in job.snapshots())
    ledger.check()


def test_rows_on_their_way_are_dealt_out_to_another_number_of_workers(tmp_path: Path) -> None:
    ledger = slow_ledger(tmp_path, WORKERS)
    job = ledger.start()
    await_attempt(job, 1, WORKERS)
    await_held_rows(ledger, job)
    job.cancel()
    assert rows_on_their_way(ledger)
    fewer = slow_ledger(tmp_path, 2)
    assert fewer.start(restore="latest").wait(PATIENCE_S) == "finished"
    fewer.check()
