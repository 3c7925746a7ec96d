"""Drivers that die or freeze: their workers end by themselves, and the next driver goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_until

COUNT, RATE = 18_000, 6_000.0
Drive = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Drive]:
    """Starts a driver; those that live at the end of a test are killed."""
    started: list[subprocess.Popen[str]] = []

    def start(restore: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.drive.driver"]
        command += [str(tmp_path), str(COUNT), str(RATE), restore]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        started.append(driver)
        return driver

    yield start
    for driver in started:
        driver.kill()
        driver.communicate()


@pytest.fixture
def ledger(tmp_path: Path) -> LedgerJob:
    return LedgerJob(tmp_path, count=COUNT)


def workers_in_the_middle(driver: subprocess.Popen[str], ledger: LedgerJob) -> list[psutil.Process]:
    """The workers of a driver, once two epochs are complete."""
    storage = open_storage(ledger.directory)

    def epoch() -> int:
        latest = read_history(storage).latest_epoch
        return latest.epoch if latest is not None else 0

    first = epoch()
    await_until(lambda: epoch() >= first + 2, "the driver has completed two epochs")
    workers = psutil.Process(driver.pid).children()
    assert len(workers) == 3
    return workers


def finish(driver: subprocess.Popen[str]) -> str:
    output, _ = driver.communicate(timeout=PATIENCE_S)
    return output.strip()


def test_a_driver_that_is_killed_leaves_no_worker_and_the_next_goes_on(
    drive: Drive, ledger: LedgerJob
) -> None:
    first = drive("new")
    workers = workers_in_the_middle(first, ledger)
    first.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=10.0)
    assert alive == []
    second = drive("latest")
    assert finish(second) == "finished 1"
    ledger.check()


def test_the_workers_of_a_frozen_driver_end_by_their_lease_and_it_recovers(
    drive: Drive, ledger: LedgerJob
) -> None:
    driver = drive("new")
    workers = workers_in_the_middle(driver, ledger)
    driver.send_signal(signal.SIGSTOP)
    # A child that has ended stays until its frozen parent asks for it.
    await_until(
        lambda: all(worker.status() == psutil.STATUS_ZOMBIE for worker in workers),
        "all workers have ended",
        10.0,
    )
    driver.send_signal(signal.SIGCONT)
    assert finish(driver) == "finished 2"
    ledger.check()


def test_a_driver_that_was_frozen_while_another_took_over_stops(
    drive: Drive, ledger: LedgerJob
) -> None:
    first = drive("new")
    workers = workers_in_the_middle(first, ledger)
    first.send_signal(signal.SIGSTOP)
    await_until(
        lambda: all(worker.status() == psutil.STATUS_ZOMBIE for worker in workers),
        "all workers have ended",
        10.0,
    )
    second = drive("latest")
    workers_in_the_middle(second, ledger)
    first.send_signal(signal.SIGCONT)
    assert finish(first) == ""
    assert first.returncode == 1
    assert finish(second) == "finished 1"
    ledger.check()
