"""Runs a job of the table on a drive, and tells what became of it."""

from __future__ import annotations

import logging
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

PATIENCE_S = {"embedded": 20.0, "processes": 60.0, "spark": 120.0}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. ``error`` is what ``wait`` raised, if it did."""

    status: str
    rows: Counter[tuple[Any, ...]]
    attempts: int
    failures: list[Any]
    error: BaseException | None
    logged: str

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
) -> Outcome:
    """Run the job of a kind whose callback does something ``times`` times."""
    marks = folder / "marks"
    marks.mkdir(parents=True)
    fault = Fault(str(marks), conduct, times, MIDDLE)
    env = environment(folder, drive, max_failures, session)
    sink = kind.build(env, fault)
    return finish(env, sink, drive)


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


def finish(env: ms.Environment, sink: Sink, drive: str = "embedded") -> Outcome:
    """Start a job and wait for its end; one that has not ended in time is a failure of the test."""
    log = _Log()
    logger = logging.getLogger("mainstay")
    logger.addHandler(log)
    error: BaseException | None = None
    try:
        job = env.start("callbacks")
        try:
            job.wait(PATIENCE_S[drive])
        except Exception as raised:
            error = raised
        status = job.status
        if status not in ("finished", "failed"):
            job.cancel()
            raise AssertionError(
                f"the job is {status} after {PATIENCE_S[drive]} s: {error!r}; {job.problems()}"
            )
    finally:
        logger.removeHandler(log)
    rows = Counter(tuple(row) for row in sink.rows())  # type: ignore[attr-defined]
    return Outcome(
        status, rows, len(job.attempts()), list(job.failures()), error, "\n".join(log.texts)
    )
