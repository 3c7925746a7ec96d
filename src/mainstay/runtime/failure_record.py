"""The record of a failure, as ``job.failures()`` gives it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from mainstay.errors import SinkError, SourceError, UserFunctionError, brief
from mainstay.runtime.record_list import shown_time
from mainstay.runtime.status import Failure
from mainstay.snapshot.failures import GIVEN_UP, RESTARTED, StoredFailure

MOST_CAUSE = 1000
MOST_TRACEBACK = 10_000
"""How many characters of an error are kept."""


@dataclass(frozen=True, slots=True)
class FailureRecord(StoredFailure):
    """Why an attempt ended before its time, where, and what was done about it.

    ``outcome`` is restarted, given up, taken over or handed over; ``done`` says it in words.
    ``traceback`` has the frames of the author's code. ``at`` is in seconds since 1970.
    """

    @classmethod
    def known(cls, stored: StoredFailure) -> FailureRecord:
        """What is in the storage."""
        return cls(**asdict(stored))

    @classmethod
    def of(cls, failure: Failure, at: float, leader: str, worker: int | None) -> FailureRecord:
        """A failure that has just been noticed."""
        is_last = failure.next_at is None
        record = cls(
            attempt=failure.attempt,
            at=at,
            leader=leader,
            cause=_cause(failure)[:MOST_CAUSE],
            outcome=GIVEN_UP if is_last else RESTARTED,
            worker=worker,
            wait_s=None if failure.next_at is None else failure.next_at - failure.at,
            next_attempt=None if is_last else failure.next_attempt,
            from_epoch=failure.from_epoch,
            why_last=failure.why_last,
        )
        return record._in_code_of(failure.error)

    def _in_code_of(self, error: Exception) -> FailureRecord:
        """With the place, where code of the job's author has raised it."""
        if not isinstance(error, UserFunctionError | SourceError | SinkError) or not error.uid:
            return self
        summary = error.summary if isinstance(error, UserFunctionError) else self.cause
        return replace(
            self,
            cause=summary[:MOST_CAUSE],
            traceback=error.user_traceback[-MOST_TRACEBACK:],
            operator=error.uid,
            subtask=error.subtask,
        )

    @property
    def subject(self) -> str:
        return "the start of the job" if self.attempt is None else f"attempt {self.attempt}"

    @property
    def where(self) -> str:
        """What has failed in the attempt; empty where it is not known."""
        if self.operator:
            subtask = "" if self.subtask is None else f", subtask {self.subtask}"
            return f"operator {self.operator!r}{subtask}"
        return "" if self.worker is None else f"worker {self.worker}"

    @property
    def done(self) -> str:
        """What was done about it."""
        epoch = self.from_epoch
        origin = "the beginning" if epoch is None else f"epoch {epoch}"
        following = f"attempt {self.next_attempt}, from {origin}"
        match self.outcome:
            case "restarted" if self.attempt is None:
                return f"tried again after {self.wait_s or 0.0:.1f} s"
            case "restarted":
                return f"restarted after {self.wait_s or 0.0:.1f} s: {following}"
            case "taken over":
                return f"taken over: {following}"
            case "handed over":
                return "left to another driver"
        return f"given up, because {self.why_last}" if self.why_last else "given up"

    def __str__(self) -> str:
        where = f" in {self.where}" if self.where else ""
        return f"{self.subject} ended{where}: {self.cause.rstrip('.')}; {self.done}"

    def cells(self) -> dict[str, str]:
        return {
            "attempt": "none" if self.attempt is None else str(self.attempt),
            "at (UTC)": shown_time(self.at),
            "where": self.where,
            "cause": self.cause,
            "then": self.done,
        }


def _cause(failure: Failure) -> str:
    """The error in a line, without the attempt and the worker, which the record has."""
    line = brief(failure.error)
    _, was_lost, reason = line.partition(f"attempt {failure.attempt} was lost: ")
    return reason if was_lost else line
