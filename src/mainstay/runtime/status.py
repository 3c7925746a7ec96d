"""Where a job stands, what it waits for, and what its attempts came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Status(Enum):
    """Where a job stands."""

    STARTING = "starting"
    LAUNCHING = "launching"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self.is_orderly or self in (Status.FAILED, Status.CANCELLED)

    @property
    def is_orderly(self) -> bool:
        """Whether the job came to its end, or to a standstill, with everything committed."""
        return self in (Status.FINISHED, Status.STOPPED)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something outside that a running job waits for; it goes on by itself when that is over.

    ``error`` is empty where there was no answer at all. How long it has lasted makes it no other
    problem.
    """

    subject: str
    what: str
    error: str
    waited_s: float = field(compare=False)

    def __str__(self) -> str:
        reason = f": {self.error}" if self.error else ""
        return f"{self.subject} {self.what} for {self.waited_s:.0f} s{reason}"


@dataclass(slots=True)
class AttemptRecord:
    """The history of one attempt, as ``job.attempts()`` gives it."""

    attempt: int
    restored_from: int | None
    begun_at: float
    report: tuple[str, ...] = ()
    ended_at: float | None = None
    reason: str = ""
