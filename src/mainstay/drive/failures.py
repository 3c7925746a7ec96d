"""The log of a job's failures: why each attempt failed, and what is tried next.

A failure is a warning: without any configuration of logging Python writes it to the terminal. There
the last one does not repeat the error, which ``wait`` is about to raise. The
frames of the runtime are logged as well, for those who want them (``MAINSTAY_TRACEBACKS=full``
makes them a part of the warning, otherwise they are debug messages).
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable

from mainstay.errors import UserFunctionError
from mainstay.runtime.status import Failure
from mainstay.tracebacks import are_full, carried_traceback, drop_frames

_log = logging.getLogger("mainstay")

_NUMBERS = re.compile(r"\b(?:worker|subtask) \d+")

Warn = Callable[..., None]

FIRST_HINT = " (restart=Restart(max_failures=0) ends a job at its first failure)"
"""Said once for each job: who is still writing it need not wait for restarts."""


class FailureLog:
    """Takes and logs what the coordinator has to tell."""

    def __init__(
        self,
        job: str,
        warn: Warn = _log.warning,
        is_awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        self._job = job
        self._warn = warn
        self._is_awaited = is_awaited
        self._has_hinted = False
        self._shown: set[str] = set()
        self._troubles: list[str] = []
        self._troubles_of = 0

    def update(self, failures: deque[Failure]) -> None:
        while failures:
            failure = failures.popleft()
            self._warn("job %r: %s%s", self._job, self._text(failure), self._traceback(failure))
            level = logging.WARNING if are_full() else logging.DEBUG
            frames = carried_traceback(failure.error)
            _log.log(level, "job %r, %s:\n%s", self._job, failure.subject, frames)
            if failure.next_at is not None:
                # The frames hold on to the state of workers that are no more.
                drop_frames(failure.error)

    def _text(self, failure: Failure) -> str:
        if failure.next_at is None:
            if self._is_awaited() and not _log.hasHandlers():
                return f"{failure.subject} failed; {failure.outlook(failure.at)}"
            return str(failure.as_problem(failure.at))
        hint = "" if self._has_hinted else FIRST_HINT
        self._has_hinted = True
        return f"{failure.as_problem(failure.at)}{hint}"

    def update_troubles(self, troubles: deque[str], attempt: int, *, is_over: bool) -> None:
        """What has gone wrong after everything was done, once the attempt has ended.

        Workers that say the same are given one line.
        """
        if self._troubles and (is_over or attempt != self._troubles_of):
            self._tell_troubles()
        while troubles:
            self._troubles_of = attempt
            self._troubles.append(troubles.popleft())
        if is_over:
            self._tell_troubles()

    def _tell_troubles(self) -> None:
        told: dict[str, list[str]] = {}
        for trouble in self._troubles:
            told.setdefault(_NUMBERS.sub("", trouble), []).append(trouble)
        self._troubles.clear()
        for first, *others in told.values():
            count = f"\nThe same was raised on {1 + len(others)} subtasks." if others else ""
            self._warn("job %r: %s%s", self._job, first.rstrip(), count)

    def _traceback(self, failure: Failure) -> str:
        """The author's own frames, once; where the job ends they come with its error."""
        error = failure.error
        if failure.next_at is None or not isinstance(error, UserFunctionError):
            return ""
        if error.user_traceback in self._shown:
            return ""
        self._shown.add(error.user_traceback)
        return f"\n{error.user_traceback.rstrip()}"
