"""The log of a job's problems: a line when one begins and a line when it is over.

At the end of a job it has a line for each operator that has emitted nothing.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence

from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.status import Problem

Key = tuple[str, str]

CALM_S = 10.0
"""What comes and goes, such as an epoch that is late, is over when it has stayed away so long."""

_log = logging.getLogger("mainstay")


class ProblemLog:
    """Told again and again what is wrong just now, it logs what has changed."""

    def __init__(
        self,
        job: str,
        warn: Callable[..., None] = _log.warning,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._warn = warn
        self._clock = clock
        self._open: dict[Key, tuple[Problem, float]] = {}
        """What was announced and is not over: as it was last seen, and when."""

    def update(self, problems: Sequence[Problem]) -> None:
        if not problems and not self._open:
            return
        now = self._clock()
        for problem in problems:
            if _key(problem) not in self._open:
                self._warn("job %r: %s", self._job, problem)
            self._open[_key(problem)] = (problem, now)
        for key, (problem, seen_at) in list(self._open.items()):
            if now - seen_at > (CALM_S if problem.comes_and_goes else 0.0):
                del self._open[key]
                self._warn("job %r, no longer: %s", self._job, problem)


def _key(problem: Problem) -> Key:
    """What makes a problem the same as before: not the numbers of epochs, nor any figures."""
    subject = "epoch" if problem.subject.startswith("epoch ") else problem.subject
    what = "" if subject == "epoch" else problem.what
    return subject, re.split(r"\d|the last epoch", what)[0]


def log_silent(job: str, coordinator: Coordinator | None) -> None:
    """Say which operators took rows and emitted none, when a job has come to its end."""
    if coordinator is None or not coordinator.status.is_orderly:
        return
    for each in coordinator.execution.silent():
        level = logging.INFO if each.may_be else logging.WARNING
        _log.log(level, "job %r, operator %s", job, each)
