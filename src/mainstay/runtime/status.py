"""Where a job stands, what it waits for, and what its attempts came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mainstay.errors import brief
from mainstay.quantities import shown_size
from mainstay.runtime.record_list import shown_time

RESCALED = "rescaled"
"""The reason why an attempt ended that made room for one at another parallelism."""
TAKEN_OVER = "taken over"
"""The reason of an attempt's recovery that is the first after another process led the job."""


class Status(Enum):
    """Where a job stands."""

    STANDBY = "standby"
    """Another process leads the job, or none does yet."""
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


class EpochStatus(str, Enum):
    """What became of an epoch; equal to its word, as in ``record.status == "complete"``."""

    COMPLETE = "complete"
    SUBSUMED = "subsumed"
    """A later one was complete first, and holds all that it would have held."""
    FAILED = "failed"

    def __str__(self) -> str:
        return self.value

    def __format__(self, format_spec: str) -> str:
        return format(self.value, format_spec)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something outside that a running job waits for; it goes on by itself when that is over.

    ``error`` is empty where there was no answer at all. ``waited_s`` does not take part in
    comparisons.
    """

    subject: str
    what: str
    error: str
    waited_s: float = field(compare=False)
    comes_and_goes: bool = field(default=False, compare=False)
    """Whether it is over only when it has stayed away for a while."""

    def __str__(self) -> str:
        reason = f": {self.error}" if self.error else ""
        return f"{self.subject} {self.what} for {self.waited_s:.0f} s{reason}"

    def cells(self) -> dict[str, str]:
        return {
            "subject": self.subject,
            "what": self.what,
            "for": f"{self.waited_s:.0f} s",
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Setback(Problem):
    """An attempt that failed: a problem until the job has made progress again.

    ``what`` says what is done about it.
    """

    def __str__(self) -> str:
        return f"{self.subject} failed: {self.error.rstrip('.')}; {self.what}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, or could not begin, and what is tried next.

    Times are those of the coordinator's monotonic clock. Where nothing more is tried, ``next_at``
    is None and ``why_last`` says why.
    """

    attempt: int | None
    error: Exception
    at: float
    next_at: float | None = None
    next_attempt: int = 1
    from_epoch: int | None = None
    why_last: str = ""

    @property
    def subject(self) -> str:
        return "the start of the job" if self.attempt is None else f"attempt {self.attempt}"

    @property
    def origin(self) -> str:
        """What the next attempt starts from."""
        return "the beginning" if self.from_epoch is None else f"epoch {self.from_epoch}"

    def outlook(self, now: float) -> str:
        """What is tried next, and when."""
        if self.next_at is None:
            return f"it is not tried again, because {self.why_last}"
        left = self.next_at - now
        if self.attempt is None:
            return f"it is tried again in {max(left, 0.0):.1f} s"
        when = f"begins in {left:.1f} s" if left > 0 else "has begun"
        return f"attempt {self.next_attempt} {when}, from {self.origin}"

    def as_problem(self, now: float) -> Setback:
        reason = brief(self.error).removeprefix(f"{self.subject} was lost: ")
        return Setback(self.subject, self.outlook(now), reason, now - self.at)


@dataclass(slots=True)
class AttemptRecord:
    """The history of one attempt, as ``job.attempts()`` gives it."""

    attempt: int
    restored_from: int | None
    begun_at: float
    report: tuple[str, ...] = ()
    ended_at: float | None = None
    reason: str = ""

    @property
    def origin(self) -> str:
        """What it was restored from, in words."""
        if self.restored_from is not None:
            return f"epoch {self.restored_from}"
        return "a savepoint or another job" if self.report else "nothing"

    def __str__(self) -> str:
        if self.ended_at is None:
            end = "has not ended"
        else:
            end = f"ended after {self.ended_at - self.begun_at:.3f} s"
        reason = f": {self.reason}" if self.reason else ""
        return f"attempt {self.attempt} from {self.origin} {end}{reason}"

    def cells(self) -> dict[str, str]:
        return {
            "attempt": str(self.attempt),
            "restored from": self.origin,
            "begun (UTC)": shown_time(self.begun_at),
            "ended (UTC)": shown_time(self.ended_at),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Recovery:
    """When an attempt took over from the one before it, in seconds since 1970.

    ``failed_at``: the failure was known, or the attempt before had halted for a rescale, or the
    leader before was last heard of, so that ``wait_s`` is the time until its lease was over;
    ``begun_at``: the next attempt was begun, after the wait that the restart strategy asks for;
    ``gathered_at``: its workers had all come in; ``running_at``: they had restored their state, of
    which they had ``local_bytes`` on their own hosts, and read ``stored_bytes`` from the storage.
    """

    attempt: int
    reason: str
    failed_at: float
    begun_at: float
    gathered_at: float
    running_at: float
    local_bytes: int = 0
    stored_bytes: int = 0

    @property
    def is_rescale(self) -> bool:
        """Whether nothing had failed: the one before ended because ``job.rescale`` was called."""
        return self.reason == RESCALED

    @property
    def is_takeover(self) -> bool:
        """Whether another process had led the job before, and was not heard of any more."""
        return self.reason == TAKEN_OVER

    @property
    def wait_s(self) -> float:
        return self.begun_at - self.failed_at

    @property
    def relaunch_s(self) -> float:
        return self.gathered_at - self.begun_at

    @property
    def restore_s(self) -> float:
        return self.running_at - self.gathered_at

    def __str__(self) -> str:
        total_s = self.running_at - self.failed_at
        event = "the job had halted for a rescale" if self.is_rescale else "the failure"
        reason = "" if self.is_rescale else f": {self.reason}"
        return (
            f"attempt {self.attempt} ran {total_s:.3f} s after {event} (waited "
            f"{self.wait_s:.3f} s, relaunched in {self.relaunch_s:.3f} s, restored in "
            f"{self.restore_s:.3f} s{self._shown_read()}){reason}"
        )

    def _shown_read(self) -> str:
        if not (self.local_bytes or self.stored_bytes):
            return ""
        local, stored = shown_size(self.local_bytes), shown_size(self.stored_bytes)
        return f" from {local} on its hosts and {stored} in storage"

    def cells(self) -> dict[str, str]:
        return {
            "attempt": str(self.attempt),
            "after": "a rescale" if self.is_rescale else "a failure",
            "at (UTC)": shown_time(self.failed_at),
            "wait": f"{self.wait_s:.3f} s",
            "relaunch": f"{self.relaunch_s:.3f} s",
            "restore": f"{self.restore_s:.3f} s",
            "reason": "" if self.is_rescale else self.reason,
        }
