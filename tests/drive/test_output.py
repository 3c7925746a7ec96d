"""What functions print in workers that are processes of their own reaches the driver."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import UserFunctionError
from tests.drive.ledger import KEYS, PATIENCE_S, Ledger, LedgerJob, await_attempt, await_until

WORKERS = 3


class Talking(Ledger):
    """Prints, logs and warns for its first rows."""

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        print("opened")

    def process(self, row: Any, ctx: Any) -> Any:
        if row.id < KEYS:
            print("printed", row.id)
            logging.getLogger("author").warning("logged %d", row.id)
            warnings.warn(f"warned {row.id}", stacklevel=1)
        return super().process(row, ctx)


class Storm(Ledger):
    """Prints more than anybody can read."""

    def process(self, row: Any, ctx: Any) -> Any:
        for n in range(100):
            print(f"{row.id} {n}")
        return super().process(row, ctx)


class LastWords(Ledger):
    def process(self, row: Any, ctx: Any) -> Any:
        sys.stderr.write("my last words")
        raise LookupError("no such order")


def told(job: RemoteJob, attempt: int | None = None) -> list[Any]:
    return job.insight.output.lines(attempt)[0]


def test_what_is_printed_logged_and_warned_is_shown_with_the_operator_that_did_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = LedgerJob(tmp_path, function=Talking(), count=2000)
    job = ledger.start()
    ledger.hurry.touch()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()
    lines = told(job)
    printed = [each for each in lines if each.line.text.startswith("printed")]
    assert sorted(int(each.line.text.split()[1]) for each in printed) == list(range(KEYS))
    assert {each.line.stream for each in printed} == {"stdout"}
    assert {each.line.operator for each in printed} == {"ledger"}
    assert all(each.line.subtask == each.worker for each in printed)
    assert sum(each.line.text == "opened" for each in lines) == WORKERS
    assert sum("logged" in each.line.text for each in lines) == KEYS
    assert any("warned 5" in each.line.text for each in lines)
    shown = capsys.readouterr().err
    assert any(f"[ledger {n}] printed 7\n" in shown for n in range(WORKERS))


def test_a_storm_of_lines_is_bounded_and_counted_and_harms_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = LedgerJob(tmp_path, function=Storm(), count=2000)
    job = ledger.start()
    ledger.hurry.touch()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()
    lines, left_out = job.insight.output.lines()
    assert len(lines) <= 1000
    assert len(lines) + left_out == 2000 * 100
    assert "lines left out" in capsys.readouterr().err


def test_the_lines_of_a_killed_worker_and_of_its_successor_are_kept_apart(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, function=Talking())
    job = ledger.start()
    pids = await_attempt(job, 1, WORKERS)
    await_until(lambda: told(job, 1), "lines of the first attempt are there")
    os.kill(pids[1], signal.SIGKILL)
    await_attempt(job, 2, WORKERS)
    await_until(lambda: told(job, 2), "lines of the second attempt are there")
    ledger.hurry.touch()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()
    assert {each.attempt for each in told(job)} == {1, 2}


def test_the_last_words_of_a_function_that_raises_come_before_its_error(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, function=LastWords())
    job = ledger.start(max_failures=0)
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S, progress=False)
    # Of several workers that fail at once one is heard for sure.
    assert "my last words" in [each.line.text for each in told(job, 1)]
