"""Jobs on plain processes: killed, frozen, failing and broken workers, and exact results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import zmq

from mainstay.drive.lease import EXIT_CODE
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import Patience
from mainstay.drive.remote_worker import Bootstrap
from mainstay.errors import JobFailedError, UserFunctionError
from mainstay.snapshot.failures import read_failures
from mainstay.snapshot.object_storage import open_storage
from mainstay.transport.hub import identity
from mainstay.transport.keys import present
from tests.drive.ledger import (
    PATIENCE_S,
    LedgerJob,
    Stumbling,
    await_attempt,
    await_until,
    complete_epochs,
)

WORKERS = 3


def test_three_workers_killed_at_random_times_in_one_run(tmp_path: Path) -> None:
    rng = random.Random(20240)
    ledger = LedgerJob(tmp_path, count=20_000, per_second=5_000.0)
    job = ledger.start()
    for attempt in (1, 2, 3):
        await_until(
            lambda attempt=attempt: (
                len(job.attempts()) == attempt and len(job.workers()) == WORKERS
            ),
            f"the workers of attempt {attempt} have come in",
        )
        # The moment is the random part: linking up, restoring, running, in an epoch.
        threading.Event().wait(rng.uniform(0.0, 1.0))
        pids = [pid for _, pid in job.workers().values()]
        os.kill(rng.choice(pids), signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    reasons = [record.reason for record in job.attempts()]
    assert len(reasons) == 4
    assert all(
        "was killed by SIGKILL" in reason and "of a worker" in reason for reason in reasons[:3]
    )
    assert reasons[3] == ""
    stored = read_failures(open_storage(ledger.directory))
    assert [(each.attempt, each.outcome, each.next_attempt) for each in stored] == [
        (1, "restarted", 2),
        (2, "restarted", 3),
        (3, "restarted", 4),
    ]
    assert all("was killed by SIGKILL" in each.cause for each in stored)
    ledger.check()


def test_the_parts_of_a_recovery_are_measured(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path)
    job = ledger.start()
    os.kill(await_attempt(job, 1, WORKERS)[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    (recovery,) = job.recoveries()
    assert recovery.attempt == 2
    assert recovery.reason == job.attempts()[0].reason
    assert recovery.wait_s >= 0.05
    assert recovery.relaunch_s > 0
    assert recovery.restore_s > 0


class Lenient(ProcessLauncher):
    """Kills nobody, as Spark may not for a while: workers must see to their own end."""

    def stop(self, attempt: int) -> None:
        return


def test_a_worker_frozen_until_its_successor_runs_harms_nothing(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=24_000, per_second=5_000.0)
    launcher = Lenient()
    job = ledger.start(launcher, Patience(silence_s=1.5, lease_s=4.0))
    frozen = await_attempt(job, 1, WORKERS)[2]
    os.kill(frozen, signal.SIGSTOP)
    await_attempt(job, 2, WORKERS)
    os.kill(frozen, signal.SIGCONT)
    process = next(p for p in launcher.processes[1] if p.pid == frozen)
    # It finds its links gone, or is told that its attempt is over, whichever it sees first.
    assert process.wait(10.0) in (1, EXIT_CODE)
    assert job.status == "running"
    assert job.wait(PATIENCE_S) == "finished"
    assert "was not heard of for 1.5 s" in job.attempts()[0].reason
    assert len(job.attempts()) == 2
    ledger.check()


def test_workers_that_nobody_kills_end_by_themselves_when_one_of_them_dies(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path)
    launcher = Lenient()
    job = ledger.start(launcher)
    pids = await_attempt(job, 1, WORKERS)
    os.kill(pids[0], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    codes = sorted(process.wait(10.0) for process in launcher.processes[1])
    assert codes[0] == -signal.SIGKILL
    assert set(codes[1:]) <= {1, EXIT_CODE}
    ledger.check()


def test_an_exception_of_a_function_is_raised_with_its_own_traceback(tmp_path: Path) -> None:
    job = LedgerJob(tmp_path, function=Stumbling(at=2_000)).start(max_failures=0)
    with pytest.raises(UserFunctionError, match="no shelf for 2000") as raised:
        job.wait(PATIENCE_S)
    error = raised.value
    assert error.uid == "ledger"
    assert 0 <= error.subtask < WORKERS
    assert error.summary == "LookupError: there is no shelf for 2000"
    assert 'raise LookupError(f"there is no shelf for {row.id}")' in error.user_traceback
    assert job.status == "failed"


def test_after_an_exception_that_does_not_come_again_the_result_is_exact(tmp_path: Path) -> None:
    function = Stumbling(at=5_000, once=str(tmp_path / "stumbled"))
    ledger = LedgerJob(tmp_path, function=function)
    job = ledger.start()
    assert job.wait(PATIENCE_S) == "finished"
    first, *_ = job.attempts()
    assert "LookupError: there is no shelf for 5000" in first.reason
    ledger.check()


class Shouting(ProcessLauncher):
    """After the first attempt has started, a socket with its keys sends garbage to the hub."""

    def __init__(self) -> None:
        super().__init__()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        super().start(bootstrap, workers, ended)
        if bootstrap.attempt == 1:
            self.socket = socket = self.context.socket(zmq.DEALER)
            socket.routing_id = identity(b"w", 1, 99)
            present(socket, bootstrap.keys.worker, bootstrap.keys.hub_public)
            socket.connect(bootstrap.hub_address)
            socket.send(b"Pgarbage")

    def close(self) -> None:
        super().close()
        self.socket.close(linger=0)
        self.context.term()


def test_garbage_from_a_worker_ends_its_attempt_and_nothing_else(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=3_000)
    job = ledger.start(Shouting())
    assert job.wait(PATIENCE_S) == "finished"
    first, *_ = job.attempts()
    assert "attempt 1 was lost: process 99: " in first.reason
    assert "cannot be read" in first.reason
    assert len(job.attempts()) == 2
    ledger.check()


class Reluctant(ProcessLauncher):
    """Cannot start the first attempt."""

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        if bootstrap.attempt == 1:
            raise OSError("no processes left")
        super().start(bootstrap, workers, ended)


def test_workers_that_cannot_be_started_are_started_again(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=3_000)
    job = ledger.start(Reluctant())
    assert job.wait(PATIENCE_S) == "finished"
    assert "could not be started: OSError: no processes left" in job.attempts()[0].reason
    ledger.check()


class Idle(ProcessLauncher):
    """Starts processes that never come in."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        program = "import sys, signal; sys.stdin.read(); signal.pause()"
        return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)


def test_workers_that_do_not_come_in_are_counted_in_the_error(tmp_path: Path) -> None:
    job = LedgerJob(tmp_path).start(Idle(), Patience(start_s=0.5), max_failures=0)
    with pytest.raises(JobFailedError, match="3 of 3 workers did not come in") as raised:
        job.wait(PATIENCE_S)
    assert "within 0.5 s (none came)" in str(raised.value)
    assert "reach the coordinator at tcp://127.0.0.1:" in str(raised.value)


@pytest.mark.parametrize("moment", ["launching", "running"])
def test_cancelling_leaves_no_process_and_the_last_epoch(tmp_path: Path, moment: str) -> None:
    before = psutil.Process().children(recursive=True)
    ledger = LedgerJob(tmp_path, count=10_000_000)
    job = ledger.start()
    if moment == "running":
        await_attempt(job, 1, WORKERS)
    else:
        await_until(lambda: job.status == "launching", "the workers are being started")
    job.cancel()
    assert set(psutil.Process().children(recursive=True)) <= set(before)
    assert job.wait() == "cancelled"
    assert (complete_epochs(job) > 0) == (moment == "running")
    job.cancel()
    assert job.wait() == "cancelled"


def test_a_loop_that_breaks_ends_its_workers(tmp_path: Path) -> None:
    before = psutil.Process().children(recursive=True)
    job = LedgerJob(tmp_path, count=10_000_000).start()
    await_attempt(job, 1, WORKERS)

    def break_down() -> None:
        raise ZeroDivisionError("a bug")

    job.post(break_down)
    with pytest.raises(JobFailedError, match="broke") as raised:
        job.wait(PATIENCE_S)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert set(psutil.Process().children(recursive=True)) <= set(before)


def test_a_process_that_has_been_a_worker_is_as_it_was_before(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.drive.within", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
