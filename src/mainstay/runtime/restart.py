"""The restart strategy: whether and when a failed job is started again."""

from __future__ import annotations

from collections import deque

from mainstay.runtime.options import RestartOptions


class RestartStrategy:
    """Waits longer after each failure in a row, and gives up on too many within a window.

    Progress (a completed epoch) makes the wait short again; the window forgets by time alone.
    """

    def __init__(self, options: RestartOptions) -> None:
        self._options = options
        self._failures: deque[float] = deque()
        self._in_a_row = 0

    def on_failure(self, now: float) -> float | None:
        """Seconds to wait before the next attempt; None when there must not be one."""
        options = self._options
        while self._failures and now - self._failures[0] > options.window_s:
            self._failures.popleft()
        self._failures.append(now)
        if len(self._failures) > options.max_failures:
            return None
        wait = options.backoff_s * 2.0 ** min(self._in_a_row, 32)
        self._in_a_row += 1
        return min(wait, options.max_backoff_s)

    @property
    def why_not_again(self) -> str:
        """Why there must not be another attempt, once ``on_failure`` has said so."""
        options = self._options
        if not options.max_failures:
            return "it is to have no restarts (restart=Restart() gives it some)"
        return (
            f"{len(self._failures)} failures within {options.window_s:g} s are more than the "
            f"{options.max_failures} of its restart strategy"
        )

    def on_progress(self) -> None:
        self._in_a_row = 0
