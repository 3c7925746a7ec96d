"""Jobs over an object store whose network loses, delays and refuses, with workers that die."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mainstay.drive.embedded import EmbeddedJob
from mainstay.runtime.options import LocalRecoveryOptions
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt, await_until, complete_epochs
from tests.services.s3_proxy import (
    BUSY,
    CONFLICT,
    CREATE,
    DROPPED,
    LOST,
    SLOW,
    THROTTLED,
    S3Proxy,
)

PLACE = "s3://bucket/job"
ALONE = LocalRecoveryOptions(is_on=False)


def make_shaky(proxy: S3Proxy) -> None:
    for fault in (BUSY, THROTTLED, DROPPED, LOST):
        proxy.inject(fault, times=None, chance=0.02)
    proxy.inject(CONFLICT, kind=CREATE, times=None, chance=0.1)
    proxy.inject(LOST, kind=CREATE, key="/log/", times=None, chance=0.1)
    proxy.inject(SLOW, times=None, chance=0.05, delay_s=0.05)


def ledger_in_a_bucket(folder: Path, workers: int) -> LedgerJob:
    ledger = LedgerJob(folder, count=8_000, per_second=4_000.0, workers=workers)
    ledger.directory = PLACE
    return ledger


def check(ledger: LedgerJob, proxy: S3Proxy) -> None:
    assert any(request.fault is not None for request in proxy.seen())
    proxy.heal()
    ledger.check()


def test_an_embedded_job_is_exact_over_a_shaky_store(tmp_path: Path, proxy: S3Proxy) -> None:
    make_shaky(proxy)
    ledger = ledger_in_a_bucket(tmp_path, workers=2)
    job = EmbeddedJob("ledger", ledger.spec, ledger.options(), open_storage(PLACE), ledger.scaling)
    for attempt in (1, 2):
        await_until(lambda n=attempt: _has_epoch(job, n) or job.is_over, "an epoch is complete")
        job.crash_worker(attempt % 2)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) >= 2
    check(ledger, proxy)


def _has_epoch(job: EmbeddedJob, attempt: int) -> bool:
    return any(r.status == "complete" and r.attempt >= attempt for r in job.snapshots())


def test_worker_processes_are_exact_over_a_shaky_store(tmp_path: Path, proxy: S3Proxy) -> None:
    make_shaky(proxy)
    ledger = ledger_in_a_bucket(tmp_path, workers=2)
    job = ledger.start(local=ALONE)
    os.kill(await_attempt(job, 1, 2)[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) >= 2
    check(ledger, proxy)


@pytest.mark.soak
def test_a_store_that_is_away_for_a_while_costs_epochs_and_no_rows(
    tmp_path: Path, proxy: S3Proxy
) -> None:
    ledger = ledger_in_a_bucket(tmp_path, workers=2)
    job = ledger.start(tolerable_failures=1_000, local=ALONE)
    await_attempt(job, 1, 2)
    proxy.inject(BUSY, times=None, key="/state/")
    await_until(
        lambda: any(record.status == "failed" for record in job.snapshots()) or job.is_over,
        "an epoch has failed",
    )
    proxy.heal()
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1
    assert complete_epochs(job) > 0
    check(ledger, proxy)
