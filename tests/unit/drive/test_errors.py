"""How a job fails: at once or after attempts, with the author's own traceback."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from mainstay.connectors import Sequence as Numbers
from mainstay.errors import JobFailedError, SourceError, UserFunctionError
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from tests.unit.drive.failing import PATIENCE_S, RETRY, Plain, Raising, await_true, start


class FailingOpen(Plain):
    def open(self, ctx: Any) -> None:
        raise ConnectionError("the service is away")


# ---------------------------------------------------------------- at once


def test_without_restart_the_first_exception_of_a_function_ends_the_job(tmp_path: Path) -> None:
    job = start(tmp_path, Raising())
    with pytest.raises(UserFunctionError, match="no such order"):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 1


def test_a_restart_that_was_asked_for_is_honoured(tmp_path: Path) -> None:
    job = start(tmp_path, Raising(), restart=RETRY)
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 3


def test_an_exception_in_open_ends_a_first_start_at_once(tmp_path: Path) -> None:
    job = start(tmp_path, FailingOpen(), restart=ms.Restart(max_failures=100))
    with pytest.raises(UserFunctionError) as caught:
        job.wait(PATIENCE_S)
    assert str(caught.value).startswith(
        "operator 'function', subtask 0, in open(): ConnectionError: the service is away"
    )
    assert job.status == "failed"
    assert len(job.attempts()) == 1


def test_a_wrong_input_path_ends_the_job_at_once(tmp_path: Path) -> None:
    env = ms.Environment(
        spark="embedded",
        snapshots=ms.Snapshots(tmp_path / "snapshots"),
        restart=ms.Restart(max_failures=100),
    )
    env.source(Files(str(tmp_path / "*.csv"), schema="n long"), uid="in").sink(Memory(), uid="out")
    job = env.start("paths")
    with pytest.raises(SourceError, match="no file matches"):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 1


def test_a_row_that_does_not_fit_its_schema_ends_the_job_at_once(tmp_path: Path) -> None:
    class Misfit(Plain):
        def process(self, row: Any, ctx: Any) -> Any:
            return ctx.key, "many"

    job = start(tmp_path, Misfit(), restart=ms.Restart(max_failures=100))
    with pytest.raises(JobFailedError, match="'many'"):
        job.wait(PATIENCE_S)
    assert len(job.attempts()) == 1


# ---------------------------------------------------------------- what is no Exception


class Leaving(Memory):
    """Its commits raise."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__()
        self.raised = raised

    def commit(self, handles: Sequence[bytes]) -> None:
        raise self.raised


@pytest.mark.parametrize("raised", [asyncio.CancelledError("given up"), SystemExit(3)])
def test_background_work_that_raises_no_exception_is_heard_of(
    tmp_path: Path, raised: BaseException
) -> None:
    job = start(tmp_path, Plain(), Leaving(raised))
    await_true(job, lambda: bool(job.problems()))
    assert type(raised).__name__ in str(job.problems()[0])
    job.cancel()


@pytest.mark.parametrize("raised", [asyncio.CancelledError("given up"), SystemExit(3)])
def test_a_function_that_raises_no_exception_fails_like_any_other(
    tmp_path: Path, raised: BaseException
) -> None:
    class Exiting(Plain):
        def process(self, row: Any, ctx: Any) -> Any:
            raise raised

    job = start(tmp_path, Exiting())
    with pytest.raises(UserFunctionError, match=type(raised).__name__) as caught:
        job.wait(PATIENCE_S)
    assert caught.value.uid == "function"


# ---------------------------------------------------------------- the author's own traceback


def test_the_error_has_the_author_s_frames_and_the_causes_alone(tmp_path: Path) -> None:
    job = start(tmp_path, Raising())
    with pytest.raises(UserFunctionError) as caught:
        job.wait(PATIENCE_S)
    error = caught.value
    text = error.user_traceback
    assert "mainstay/runtime" not in text
    assert "self.look_up(row)" in text
    assert "{}[row.n]" in text, "the frames of the cause"
    assert text.rstrip().endswith("LookupError: no such order")
    assert isinstance(error.original, LookupError)
    assert error.__cause__ is None
    frames = [str(entry.path) for entry in caught.traceback]
    assert not [frame for frame in frames if "mainstay/runtime" in frame]


def test_the_frames_of_the_runtime_are_there_for_those_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAINSTAY_TRACEBACKS", "full")
    job = start(tmp_path, Raising())
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    assert "mainstay/runtime/operators/keyed.py" in caplog.text


# ---------------------------------------------------------------- the ends of a job

_closed: list[str] = []


class Closing(Plain):
    def close(self) -> None:
        _closed.append("closed")


def endless(directory: Path, function: Any, **settings: Any) -> Any:
    """A job that runs until somebody ends it; it has completed an epoch."""
    snapshots = ms.Snapshots(directory, every="20ms")
    env = ms.Environment(spark="embedded", snapshots=snapshots, **settings)
    rows = env.source(Numbers(rows_per_second=1000), uid="in").map(twice, "k long, n long")
    keyed = rows.key_by("k").process(function, "k long, n long", uid="function")
    keyed.sink(Memory(), uid="out")
    job = env.start("endless")
    await_true(job, lambda: any(record.status == "complete" for record in job.snapshots()))
    return job


def twice(row: Any) -> Any:
    return row[0], row[0]


@pytest.fixture
def closed() -> list[str]:
    _closed.clear()
    return _closed


def test_functions_are_closed_when_a_job_finishes(tmp_path: Path, closed: list[str]) -> None:
    assert start(tmp_path, Closing(), parallelism=3).wait(PATIENCE_S) == "finished"
    assert closed == ["closed"] * 3


def test_functions_are_closed_when_a_job_is_stopped(tmp_path: Path, closed: list[str]) -> None:
    job = endless(tmp_path, Closing(), parallelism=3)
    job.stop(timeout=PATIENCE_S)
    assert closed == ["closed"] * 3


def test_functions_are_closed_when_a_job_is_rescaled(tmp_path: Path, closed: list[str]) -> None:
    job = endless(tmp_path, Closing(), parallelism=3)
    job.rescale(2, timeout=PATIENCE_S)
    assert closed == ["closed"] * 3
    job.cancel()
    assert closed == ["closed"] * 3


def test_functions_are_not_closed_when_a_job_is_cancelled_or_fails(
    tmp_path: Path, closed: list[str]
) -> None:
    endless(tmp_path / "cancelled", Closing()).cancel()
    job = endless(tmp_path / "failed", Closing())
    job.crash_worker(0)
    with pytest.raises(JobFailedError, match="it was killed"):
        job.wait(PATIENCE_S)
    assert closed == []


def test_a_function_that_cannot_be_closed_is_told_of_and_harms_nothing(
    tmp_path: Path, closed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Clinging(Closing):
        def close(self) -> None:
            super().close()
            raise OSError("still in use")

    assert start(tmp_path, Clinging(), parallelism=2).wait(PATIENCE_S) == "finished"
    assert closed == ["closed"] * 2
    (line,) = [message for message in caplog.messages if "still in use" in message]
    assert "operator 'function', subtask 0, in close(): OSError: still in use" in line
    assert line.endswith("The same was raised on 2 subtasks.")


# ---------------------------------------------------------------- what is told of it all


def test_failures_are_known_to_later_starts(tmp_path: Path) -> None:
    for number in (1, 2):
        job = start(tmp_path, Raising(), restart=RETRY, restore="latest-or-new")
        with pytest.raises(UserFunctionError):
            job.wait(PATIENCE_S)
        attempts = list(range(1, 3 * number + 1))
        await_true(job, lambda attempts=attempts, job=job: len(job.failures()) == len(attempts))
        assert [each.attempt for each in job.failures()] == attempts
    outcomes = [each.outcome for each in job.failures()]
    assert outcomes == ["restarted", "restarted", "given up"] * 2
    assert {(each.operator, each.cause) for each in job.failures()} == {
        ("function", "LookupError: no such order")
    }
    assert all("raise LookupError" in each.traceback for each in job.failures())
    assert "given up, because" in repr(job.failures())


def test_recoveries_are_known_in_this_drive_too(tmp_path: Path) -> None:
    job = endless(tmp_path, Plain(), restart=RETRY)
    assert job.recoveries() == []
    job.crash_worker(1)
    await_true(job, lambda: bool(job.recoveries()))
    (recovery,) = job.recoveries()
    assert recovery.attempt == 2
    assert "it was killed" in recovery.reason
    times = [recovery.failed_at, recovery.begun_at, recovery.gathered_at, recovery.running_at]
    assert times == sorted(times)
    job.cancel()


def test_what_takes_time_is_said_in_a_line_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    job = endless(tmp_path, Summing(), parallelism=2)
    await_true(job, lambda: any(e.size_bytes and e.status == "complete" for e in job.snapshots()))
    job.cancel()
    assert caplog.messages == ["job 'endless': starting 2 workers", "job 'endless': running"]
    caplog.clear()
    job = endless(tmp_path, Summing(), parallelism=2, restore="latest")
    job.cancel()
    epoch = job.attempts()[0].restored_from
    lines = [line for line in caplog.messages if "attempt 2" not in line]
    assert lines[0] == "job 'endless': starting 2 workers"
    assert lines[1] == f"job 'endless': going on from epoch {epoch}"
    assert lines[2].startswith("job 'endless': restoring ")
    assert lines[2].endswith(" MB")
    assert lines[3] == "job 'endless': running"


class Summing(ms.KeyedProcess):
    total = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.add(row.n)
        return ctx.key, self.total.get()


PROGRAM = """
import threading, time
import mainstay as ms
from mainstay.connectors import Memory, Sequence

snapshots = ms.Snapshots({directory!r}, every="20ms")
env = ms.Environment(spark="embedded", parallelism=1, snapshots=snapshots)
env.source(Sequence(rows_per_second=100), uid="in").sink(Memory(), uid="out")
job = env.start("interrupted")

def tell():
    while not [r for r in job.snapshots() if r.status == "complete"]:
        time.sleep(0.01)
    print("ready", flush=True)

threading.Thread(target=tell).start()
job.wait()
"""


CANCELLED = re.compile(
    r"^interrupted: cancelled at epoch \d+; go on with restore='latest'$", re.MULTILINE
)


def signalled(folder: Path, number: signal.Signals, before: str = "") -> tuple[int, str]:
    """How a program that waits for its job ends when it gets a signal: its code, and its words."""
    script = folder / "interrupted.py"
    script.write_text(before + PROGRAM.format(directory=str(folder / "snapshots")))
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        _, told = running.communicate(timeout=PATIENCE_S)
    return running.returncode, told


def test_an_interrupt_says_at_which_epoch_and_how_to_go_on(tmp_path: Path) -> None:
    code, told = signalled(tmp_path, signal.SIGINT)
    assert CANCELLED.search(told), told
    assert "KeyboardInterrupt" in told
    assert code == -signal.SIGINT


def test_a_program_that_is_told_to_end_cancels_its_job_and_says_how_to_go_on(
    tmp_path: Path,
) -> None:
    code, told = signalled(tmp_path, signal.SIGTERM)
    assert CANCELLED.search(told), told
    assert "Traceback" not in told
    assert code == 128 + signal.SIGTERM
    ended = read_history(open_storage(str(tmp_path / "snapshots"))).ended
    assert ended is not None
    assert ended.how == "cancelled"


OWN_HANDLER = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
"""


def test_a_program_that_handles_the_signal_itself_is_left_alone(tmp_path: Path) -> None:
    code, told = signalled(tmp_path, signal.SIGTERM, OWN_HANDLER)
    assert code == 7
    assert not told
