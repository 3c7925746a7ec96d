"""Standstill: the job's only thread does not come back from the author's code."""

from __future__ import annotations

import time

from mainstay.drive.failures import Warn
from mainstay.tracebacks import place_in_author_s_code

STUCK_S = 3.0
"""A call of the author's code that takes so long is worth a word: all else waits for it."""


class Standstill:
    """Watches the passes of a loop that calls the author's functions itself."""

    def __init__(self, job: str, warn: Warn) -> None:
        self._job = job
        self._warn = warn
        self._passed_at = time.monotonic()
        self._is_stuck = False

    def passed(self) -> None:
        """The loop has come round."""
        self._passed_at = time.monotonic()

    def look(self, thread: int | None) -> None:
        """Say where the author's code is that the thread has not come back from, once each time."""
        waited_s = time.monotonic() - self._passed_at
        if waited_s < STUCK_S or self._is_stuck:
            self._is_stuck = self._is_stuck and waited_s >= STUCK_S
            return
        if place := place_in_author_s_code(thread):
            self._is_stuck = True
            self._warn(
                "job %r has waited for %.0f s for %s. Nothing else is done meanwhile: give what "
                "it calls a timeout; a source whose poll() waits for rows says may_block = True",
                self._job,
                waited_s,
                place,
            )
