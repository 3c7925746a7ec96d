"""Where a job stands, and what its attempts came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """Where a job stands."""

    STARTING = "starting"
    LAUNCHING = "launching"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (Status.FINISHED, Status.FAILED, Status.CANCELLED)


@dataclass(slots=True)
class AttemptRecord:
    """The history of one attempt, as ``job.attempts()`` gives it."""

    attempt: int
    restored_from: int | None
    begun_at: float
    report: tuple[str, ...] = ()
    ended_at: float | None = None
    reason: str = ""
