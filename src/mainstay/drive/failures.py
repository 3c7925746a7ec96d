"""The log of a job's failures: why each attempt failed, and what is tried next.

A failure is a warning: without any configuration of logging Python writes it to the terminal. The
frames of the runtime are logged as well, for those who want them (``MAINSTAY_TRACEBACKS=full``
makes them a part of the warning, otherwise they are debug messages).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from mainstay.errors import UserFunctionError
from mainstay.runtime.status import Failure
from mainstay.runtime.tracebacks import are_full, carried_traceback, drop_frames

_log = logging.getLogger("mainstay")

Warn = Callable[..., None]


class FailureLog:
    """Takes and logs what the coordinator has to tell."""

    def __init__(self, job: str, warn: Warn = _log.warning) -> None:
        self._job = job
        self._warn = warn
        self._shown: set[str] = set()

    def update(self, failures: deque[Failure]) -> None:
        while failures:
            failure = failures.popleft()
            text = failure.as_problem(failure.at)
            self._warn("job %r: %s%s", self._job, text, self._traceback(failure))
            level = logging.WARNING if are_full() else logging.DEBUG
            frames = carried_traceback(failure.error)
            _log.log(level, "job %r, %s:\n%s", self._job, failure.subject, frames)
            if failure.next_at is not None:
                # The frames hold on to the state of workers that are no more.
                drop_frames(failure.error)

    def update_troubles(self, troubles: deque[str]) -> None:
        """What has gone wrong after everything was done."""
        while troubles:
            self._warn("job %r: %s", self._job, troubles.popleft())

    def _traceback(self, failure: Failure) -> str:
        """The author's own frames, once; where the job ends they come with its error."""
        error = failure.error
        if failure.next_at is None or not isinstance(error, UserFunctionError):
            return ""
        if error.user_traceback in self._shown:
            return ""
        self._shown.add(error.user_traceback)
        return f"\n{error.user_traceback.rstrip()}"
