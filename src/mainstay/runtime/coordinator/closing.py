"""Closing: the end of an attempt in good order, and what an attempt has come to.

The workers are released and close their functions. That they are done is awaited, but not for
ever: nothing depends on it any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from mainstay.runtime.messages import Released, WorkerFailed

CLOSING_S = 10.0
"""How long functions may take to close, at the end of a job, before they are left to it."""
LAST_WORDS_S = 2.0


class How(Enum):
    """How an attempt can end."""

    FAILED = "failed"
    """It cannot go on."""
    FINISHED = "finished"
    """The job is done: its end is in the log."""
    HALTED = "halted"
    """It has come to the standstill that was asked for."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What an attempt has come to.

    ``troubles``: what functions raised when they were closed. ``worker``: the one that failed,
    where it is known.
    """

    how: How
    error: Exception | None = None
    troubles: tuple[str, ...] = ()
    worker: int | None = None


@dataclass(slots=True)
class Closing:
    """The workers were released in good order: who still closes, and until when that is awaited."""

    how: How
    workers: set[int]
    until: float
    _troubles: list[str] = field(default_factory=list)

    def hear(self, message: Any, now: float) -> None:
        """Take a message of a worker."""
        match message:
            case Released(_, worker, trouble):
                self.workers.discard(worker)
                if trouble:
                    told = f"worker {worker} could not close its functions: {trouble}"
                    self._troubles.append(told)
            case WorkerFailed(_, worker, _) if worker >= 0:
                self.workers.discard(worker)
            case WorkerFailed():
                # Some worker is no more. Perhaps it was closed; the others are about to be.
                self.until = min(self.until, now + LAST_WORDS_S)

    def ending(self) -> Ending:
        return Ending(self.how, troubles=tuple(self._troubles))
