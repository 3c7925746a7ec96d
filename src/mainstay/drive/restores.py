"""The log of a job's restores: what was matched, added, dropped, converted and migrated."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mainstay.runtime.status import AttemptRecord

_log = logging.getLogger("mainstay")


class RestoreLog:
    """Told again and again which attempts there are, it logs what each new one starts from."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._logged = 0
        self._is_reported = False

    def update(self, attempts: Sequence[AttemptRecord], report: Sequence[str] = ()) -> None:
        """``report`` is what is said of a job that had finished and has nothing new to read."""
        if report and not self._is_reported:
            self._is_reported = True
            for line in report:
                _log.info("job %r: %s", self._job, line)
        for attempt in [each for each in attempts[-2:] if each.attempt > self._logged]:
            for line in attempt.report:
                _log.info("job %r, attempt %d: %s", self._job, attempt.attempt, line)
            self._logged = attempt.attempt
