"""Runs a job of the table on a drive, and tells what became of it."""

from __future__ import annotations

import logging
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.api.overrides import PROCESSES
from mainstay.connectors import Sink
from tests.callbacks.conducts import Fault
from tests.callbacks.kind import Kind
from tests.callbacks.rows import MIDDLE

PATIENCE_S = {"embedded": 20.0, "processes": 300.0, "spark": 300.0}

LEADING_UP = "the ledger was away"
"""What a callback says that fails so that another is called, which is the one in question."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. ``error`` is what ``wait`` raised, if it did."""

    status: str
    rows: Counter[tuple[Any, ...]]
    attempts: int
    failures: list[Any]
    error: BaseException | None
    logged: str
    problem: str = ""
    """What it waited for when it was cancelled."""

    @property
    def shown(self) -> str:
        """The error as Python would print it."""
        error = self.error
        return "" if error is None else "".join(traceback.format_exception(error))


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def run(
    kind: Kind,
    folder: Path,
    conduct: str,
    times: int,
    *,
    max_failures: int,
    drive: str = "embedded",
    session: Any = None,
    until_problem: bool = False,
) -> Outcome:
    """Run the job of a kind whose callback does something ``times`` times.

    With ``until_problem`` it is cancelled once it says what it waits for.
    """
    marks = folder / "marks"
    marks.mkdir(parents=True)
    fault = Fault(str(marks), conduct, times, MIDDLE)
    env = environment(folder, drive, max_failures, session)
    sink = kind.build(env, fault)
    return finish(env, sink, drive, until_problem=until_problem)


def environment(folder: Path, drive: str, max_failures: int, session: Any = None) -> ms.Environment:
    where = {"embedded": "embedded", "processes": PROCESSES, "spark": session}[drive]
    return ms.Environment(
        spark=where,
        parallelism=2,
        snapshots=ms.Snapshots(
            folder / "snapshots", every="10ms" if drive == "embedded" else "50ms"
        ),
        restart=ms.Restart(max_failures=max_failures, backoff="1ms"),
    )


def finish(
    env: ms.Environment, sink: Sink, drive: str = "embedded", *, until_problem: bool = False
) -> Outcome:
    """Start a job and wait for its end; one that has not ended in time is a failure of the test."""
    log = _Log()
    logger = logging.getLogger("mainstay")
    logger.addHandler(log)
    try:
        job = env.start("callbacks")
        problem = cancelled_for(job, drive) if until_problem else ""
        error = raised_by(job, PATIENCE_S[drive])
    finally:
        logger.removeHandler(log)
    rows = Counter(tuple(row) for row in sink.rows())  # type: ignore[attr-defined]
    failures, attempts = list(job.failures()), len(job.attempts())
    return Outcome(job.status, rows, attempts, failures, error, "\n".join(log.texts), problem)


def raised_by(job: ms.Job, patience_s: float) -> BaseException | None:
    """What ``wait`` raises, if anything."""
    error: BaseException | None = None
    try:
        job.wait(patience_s)
    except Exception as raised:
        error = raised
    if (status := job.status) not in ("finished", "failed", "cancelled"):
        problems = [str(problem) for problem in job.problems()]
        job.cancel()
        raise AssertionError(f"the job is {status} after {patience_s} s: {problems}") from error
    return error


def cancelled_for(job: ms.Job, drive: str) -> str:
    """Cancel a job once it waits for something; what that is."""
    deadline = time.monotonic() + PATIENCE_S[drive]
    while time.monotonic() < deadline and job.status not in ("finished", "failed"):
        if problems := [text for text in map(str, job.problems()) if LEADING_UP not in text]:
            job.cancel()
            return problems[0]
        time.sleep(0.002)
    return ""
