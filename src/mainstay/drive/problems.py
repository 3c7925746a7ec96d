"""The log of a job's problems: a line when one begins and a line when it is over.

At the end of a job it has a line for each operator that has emitted nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mainstay.runtime.coordinator import Coordinator
from mainstay.runtime.status import Problem

_log = logging.getLogger("mainstay")


class ProblemLog:
    """Told again and again what is wrong just now, it logs what has changed."""

    def __init__(self, job: str, warn: Callable[..., None] = _log.warning) -> None:
        self._job = job
        self._warn = warn
        self._open: dict[str, Problem] = {}

    def update(self, problems: Sequence[Problem]) -> None:
        if not problems and not self._open:
            return
        now = {problem.subject: problem for problem in problems}
        for subject, problem in now.items():
            if subject not in self._open:
                self._warn("job %r: %s", self._job, problem)
        for subject, problem in self._open.items():
            if subject not in now:
                self._warn("job %r, no longer: %s", self._job, problem)
        self._open = now


def log_silent(job: str, coordinator: Coordinator) -> None:
    """Say which operators took rows and emitted none, when a job has come to its end."""
    if not coordinator.status.is_orderly:
        return
    for each in coordinator.silent():
        level = logging.INFO if each.may_be else logging.WARNING
        _log.log(level, "job %r, operator %s", job, each)
