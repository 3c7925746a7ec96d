"""Killing a worker of the demonstration, also one on another machine.

A process can be killed only where it runs. So a file in the folder that all machines see names the
worker, and the worker, which looks for it, does to itself what ``kill -9`` does.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

LOOK_S = 0.1


def sentence(folder: Path, pid: int) -> None:
    """Have the worker with this process id killed."""
    _file(folder, pid).touch()


class Obedience:
    """In a worker: dies as soon as it is told to, without a word to anybody."""

    def __init__(self, folder: str) -> None:
        self._file = _file(Path(folder), os.getpid())
        self._looked_at = 0.0

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        if self._file.exists():
            # Another machine may have a process with this id.
            self._file.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)


def _file(folder: Path, pid: int) -> Path:
    return folder / f"kill-{pid}"
