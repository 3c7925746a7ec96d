"""What is seen of errors in workers that are processes of their own."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_worker import Bootstrap
from mainstay.errors import JobFailedError, SparkSetupError, UserFunctionError
from tests.drive.ledger import (
    PATIENCE_S,
    Ledger,
    LedgerJob,
    Stumbling,
    await_attempt,
    await_until,
)

WORKERS = 3


class FailingOpen(Ledger):
    def open(self, ctx: Any) -> None:
        raise ConnectionError("the service is away")


class UnpicklableError(Exception):
    """Holds what cannot be sent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Raising(Ledger):
    def __init__(self, error: str) -> None:
        self.error = error

    def process(self, row: Any, ctx: Any) -> Any:
        if self.error == "unpicklable":
            raise UnpicklableError("holds a lock")
        if self.error == "cancelled":
            raise asyncio.CancelledError("given up")
        if self.error == "interrupt":
            raise KeyboardInterrupt
        raise SystemExit(3)


class FailingOnce(Ledger):
    """Raises once there is a file."""

    def __init__(self, flag: str) -> None:
        self.flag = flag

    def process(self, row: Any, ctx: Any) -> Any:
        if os.path.exists(self.flag):
            raise LookupError("there is a flag")
        return super().process(row, ctx)


class Closing(Ledger):
    """Leaves a file for every subtask that was closed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, ctx: Any) -> None:
        self.name = f"{os.getpid()}-{ctx.subtask}"

    def close(self) -> None:
        Path(self.folder, self.name).touch()


class Unloadable(Ledger):
    """Cannot be loaded where it was not made."""

    def __reduce__(self) -> Any:
        return _load, (os.getpid(),)


def _load(pid: int) -> Unloadable:
    if pid != os.getpid():
        raise ModuleNotFoundError("No module named 'orders'")
    return Unloadable()


def test_an_exception_in_open_ends_a_first_start_at_once(tmp_path: Path) -> None:
    job = LedgerJob(tmp_path, function=FailingOpen()).start()
    with pytest.raises(UserFunctionError, match=r"in open\(\): ConnectionError"):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 1


def test_a_program_that_workers_cannot_load_ends_the_job_at_once(tmp_path: Path) -> None:
    job = LedgerJob(tmp_path, function=Unloadable()).start()
    with pytest.raises(JobFailedError, match=r"cannot load.*No module named 'orders'") as raised:
        job.wait(PATIENCE_S)
    assert isinstance(raised.value.original, SparkSetupError)
    assert len(job.attempts()) == 1


class Elsewhere(ProcessLauncher):
    """Its last process sees another folder under the name of the snapshot directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def _brief(self, process: subprocess.Popen[bytes], bootstrap: Bootstrap, number: int) -> None:
        if number == WORKERS - 1:
            bootstrap = replace(bootstrap, storage=str(self._folder))
        super()._brief(process, bootstrap, number)


def test_a_worker_that_sees_another_snapshot_directory_ends_a_first_start_at_once(
    tmp_path: Path,
) -> None:
    job = LedgerJob(tmp_path).start(Elsewhere(tmp_path / "elsewhere"))
    with pytest.raises(JobFailedError, match=r"elsewhere' is another one on host .* lacks log/0+"):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 1
    assert job.snapshots() == []


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("unpicklable", "UnpicklableError: holds a lock"),
        ("cancelled", "CancelledError: given up"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
    ],
)
def test_whatever_a_function_raises_arrives_with_its_own_frames(
    tmp_path: Path, kind: str, summary: str
) -> None:
    job = LedgerJob(tmp_path, function=Raising(kind)).start(max_failures=0)
    with pytest.raises(UserFunctionError) as raised:
        job.wait(PATIENCE_S)
    error = raised.value
    assert (error.uid, error.summary) == ("ledger", summary)
    assert "raise " in error.user_traceback
    assert "mainstay/runtime" not in str(error)
    assert (error.original is None) == (kind == "unpicklable")


class Launching(ProcessLauncher):
    """Workers that do not come up, and cannot be given up at once."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.may_close = threading.Event(), threading.Event()

    def start(self, bootstrap: Any, workers: int, ended: Any) -> None:
        self.is_asked.set()

    def close(self) -> None:
        assert self.may_close.wait(PATIENCE_S)


def test_ctrl_c_while_workers_are_started_says_that_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mainstay.drive.handle.CANCEL_S", 0.1)
    launcher = Launching()
    job = LedgerJob(tmp_path).start(launcher)

    def press() -> None:
        launcher.is_asked.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        job.wait(PATIENCE_S)
    launcher.may_close.set()
    assert job.wait(PATIENCE_S) == "cancelled"
    told = capsys.readouterr().err
    assert told.rstrip().endswith(
        "go on with restore='latest-or-new'. Its workers are still being started."
    )


def test_ctrl_c_in_the_driver_s_terminal_leaves_its_workers_to_the_driver(tmp_path: Path) -> None:
    job = LedgerJob(tmp_path).start(max_failures=0)
    for pid in await_attempt(job, 1, WORKERS).values():
        os.kill(pid, signal.SIGINT)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 1


def test_the_frames_of_a_worker_s_runtime_are_in_the_debug_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "mainstay")
    job = LedgerJob(tmp_path, function=Stumbling(at=100)).start(max_failures=0)
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    (debug,) = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert "mainstay/runtime/operators/keyed.py" in debug.getMessage()


def test_the_reason_of_a_killed_worker_is_its_own_and_not_that_of_a_survivor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = LedgerJob(tmp_path)
    job = ledger.start()
    pid = await_attempt(job, 1, WORKERS)[1]
    os.kill(pid, signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert f"process {pid} of a worker was killed by SIGKILL" in job.attempts()[0].reason
    (line,) = [message for message in caplog.messages if "failed" in message]
    assert re.search(
        rf"attempt 1 failed: process {pid} of a worker was killed by SIGKILL.*; attempt 2 begins "
        r"in 0\.\d s, from epoch \d+",
        line,
    )
    ledger.check()


def test_a_driver_that_is_held_up_hears_why_a_worker_failed_before_it_hears_that_it_did(
    tmp_path: Path,
) -> None:
    flag, launcher = tmp_path / "flag", ProcessLauncher()
    ledger = LedgerJob(tmp_path, count=10_000_000, function=FailingOnce(str(flag)))
    job = ledger.start(launcher, max_failures=0)
    await_attempt(job, 1, WORKERS)

    def hold_up() -> None:
        flag.touch()
        await_until(
            lambda: any(each.poll() is not None for each in launcher.processes[1]),
            "a worker has given up waiting for an answer",
        )

    job.post(hold_up)
    with pytest.raises(UserFunctionError, match="LookupError: there is a flag"):
        job.wait(PATIENCE_S)


def closed(folder: Path) -> int:
    return len(list(folder.iterdir()))


def test_functions_are_closed_in_good_order_and_only_then(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    for name in ("finished", "stopped", "cancelled"):
        (tmp_path / name).mkdir()
    finishing = LedgerJob(tmp_path / "finished", count=2_000, function=Closing(str(marks)))
    assert finishing.start().wait(PATIENCE_S) == "finished"
    assert closed(marks) == WORKERS

    job = LedgerJob(tmp_path / "stopped", count=10_000_000, function=Closing(str(marks))).start()
    await_attempt(job, 1, WORKERS)
    job.rescale(2, timeout=PATIENCE_S)
    assert closed(marks) == 2 * WORKERS
    job.stop(timeout=PATIENCE_S)
    assert closed(marks) == 2 * WORKERS + 2

    job = LedgerJob(tmp_path / "cancelled", count=10_000_000, function=Closing(str(marks))).start()
    pids = await_attempt(job, 1, WORKERS)
    os.kill(pids[0], signal.SIGKILL)
    await_until(lambda: len(job.attempts()) == 2, "the next attempt has begun")
    await_attempt(job, 2, WORKERS)
    job.cancel()
    assert closed(marks) == 2 * WORKERS + 2
