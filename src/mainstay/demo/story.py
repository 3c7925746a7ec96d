"""What happens to the job of the demonstration, told while it runs; the crash is part of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from mainstay.demo.killing import sentence
from mainstay.demo.orders import Orders
from mainstay.demo.show import Screen
from mainstay.drive.embedded import EmbeddedJob
from mainstay.runtime.status import EpochStatus
from mainstay.spelling import counted


class Story:
    """Tells what is new about a job."""

    def __init__(self, screen: Screen, job: Any, source: Orders) -> None:
        self._screen = screen
        self._job = job
        self._source = source
        self._begun = 0
        self._ended = 0
        self._last_line = 0.0
        self._began = time.monotonic()
        self._ran_since: float | None = None
        """When the job was first seen to run: its workers have begun to read."""
        self.crashed = False

    def ran_s(self) -> float:
        """For how long the job has been running, restarts included."""
        return 0.0 if self._ran_since is None else time.time() - self._ran_since

    def tell(self) -> None:
        if self._ran_since is None and self._job.status == "running":
            self._ran_since = time.time()
        for number, attempt in enumerate(self._job.attempts()):
            if number == self._begun:
                start = f"epoch {attempt.restored_from}" if attempt.restored_from else "empty state"
                self._line(f"attempt {attempt.attempt} starts from {start}")
                self._begun += 1
            if number == self._ended and attempt.reason:
                # Why, the warning of the job says.
                self._line(f"attempt {attempt.attempt} has ended")
                self._ended += 1
        text = self._progress()
        self._screen.progress(self._stamped(text))
        if time.monotonic() - self._last_line >= 1.0:
            self._line(text)

    def crash(self) -> None:
        self.crashed = True
        self._line(_kill_worker(self._job, 1, self._source.folder))

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        self._screen.line(self._stamped(text))

    def _stamped(self, text: str) -> str:
        return f"{time.monotonic() - self._began:5.1f} s  {text}"

    def _progress(self) -> str:
        complete = [
            record for record in self._job.snapshots() if record.status == EpochStatus.COMPLETE
        ]
        placed = 0 if self._ran_since is None else self._source.placed(self._ran_since)
        text = (
            f"{self._job.status}: {placed:,} orders placed, "
            f"{counted(len(complete), 'epoch')} complete"
        )
        if complete:
            text += f", the last one in {complete[-1].duration_s * 1e3:.0f} ms"
        return text


def _kill_worker(job: Any, number: int, folder: str | None) -> str:
    """Kill a worker as nothing should be killed, and say which."""
    loss = "with everything it held in memory"
    if isinstance(job, EmbeddedJob):
        job.crash_worker(number)
        return f"worker {number} is killed, {loss}"
    host, pid = job.workers()[number]
    if folder is None:
        os.kill(pid, signal.SIGKILL)
        return f"worker {number} is killed (kill -9 {pid}), {loss}"
    sentence(Path(folder), pid)
    return f"worker {number} is killed (kill -9 {pid} on {host}), {loss}"
