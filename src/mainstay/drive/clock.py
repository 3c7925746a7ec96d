"""The clock of the machine."""

from __future__ import annotations

import time


class SystemClock:
    """Real time."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def cpu(self) -> float:
        return time.thread_time()
