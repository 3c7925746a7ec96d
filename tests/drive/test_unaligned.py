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


def slow_map(row: Any) -> Any:
    time.sleep(0.0003)
    return tuple(row)


def in_turn(ids: Any) -> Any:
    return ids.rebalance().map(slow_map, "id long, k long", uid="map")


def chained(ids: Any) -> Any:
    return ids.map(slow_map, "id long, k long", uid="map")


def slow_ledger(folder: Path, workers: int, mode: str = "unaligned") -> LedgerJob:
    return LedgerJob(
        folder,
        count=COUNT,
        per_second=1e6,
        workers=workers,
        function=Slow(),
        mode=mode,
    )


def slow_maps(folder: Path, workers: int, before: Any, mode: str = "unaligned") -> LedgerJob:
    return LedgerJob(folder, count=COUNT, per_second=1e6, workers=workers, mode=mode, before=before)


def in_flight(ledger: LedgerJob) -> int:
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
        lambda: in_flight(ledger) and job.status == "running",
        "an epoch holds in-flight rows",
    )


def test_in_flight_rows_survive_kills(tmp_path: Path) -> None:
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


def test_in_flight_rows_are_dealt_out_to_another_number_of_workers(tmp_path: Path) -> None:
    ledger = slow_ledger(tmp_path, WORKERS)
    job = ledger.start()
    await_attempt(job, 1, WORKERS)
    await_held_rows(ledger, job)
    job.cancel()
    assert in_flight(ledger)
    fewer = slow_ledger(tmp_path, 2)
    assert fewer.start(restore="latest").wait(PATIENCE_S) == "finished"
    fewer.check()


def left_with_in_flight_rows(ledger: LedgerJob) -> int:
    """Start a job and cancel it when an epoch holds in-flight rows; returns which."""
    job = ledger.start()
    await_attempt(job, 1, WORKERS)
    await_held_rows(ledger, job)
    job.cancel()
    assert in_flight(ledger)
    manifest = latest_manifest(open_storage(ledger.directory))
    assert manifest is not None
    return manifest.epoch


def test_a_job_that_leaves_unaligned_mode_takes_its_in_flight_rows_along(tmp_path: Path) -> None:
    left_with_in_flight_rows(slow_ledger(tmp_path, WORKERS))
    aligned = slow_ledger(tmp_path, WORKERS, mode="exactly_once")
    assert aligned.start(restore="latest").wait(PATIENCE_S) == "finished"
    aligned.check()


def test_in_flight_rows_go_into_the_middle_of_a_chain(tmp_path: Path) -> None:
    left_with_in_flight_rows(slow_maps(tmp_path, WORKERS, in_turn))
    fused = slow_maps(tmp_path, 2, chained, mode="exactly_once")
    assert fused.start(restore="latest").wait(PATIENCE_S) == "finished"
    fused.check()


def test_a_job_that_starts_from_the_epoch_of_another_has_its_in_flight_rows(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    ledger = slow_ledger(tmp_path / "one", WORKERS)
    epoch = left_with_in_flight_rows(ledger)
    fork = slow_ledger(tmp_path / "other", 2, mode="exactly_once")
    job = fork.start(origin=f"{ledger.directory}#{epoch}")
    assert job.wait(PATIENCE_S) == "finished"
    fork.check_state()
