"""The chronicle of a job under one leader: what has become of it, for people.

Nothing is decided by it. The drive reads the attempts and epochs, and takes the news.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from mainstay.errors import FencedError
from mainstay.runtime.coordinator.epoch_history import EpochHistory
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.failure_history import FailureHistory
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.ports import Ports
from mainstay.runtime.status import AttemptRecord, Failure
from mainstay.snapshot.failures import HANDED_OVER
from mainstay.snapshot.history import Ended

MOST_ATTEMPTS = 1000
"""How many attempts a leader remembers, beside its first."""

MOST_NEWS = 64
"""How many failures are kept for the log of a drive."""


class Chronicle:
    """The attempts and epochs so far, and the news that nobody has taken yet."""

    def __init__(self, ports: Ports, leader: str) -> None:
        self.attempts: list[AttemptRecord] = []
        self.epochs = EpochHistory(ports)
        self.past = FailureHistory(ports, leader)
        """All failures that are known, also of earlier leaders."""
        self.report: tuple[str, ...] = ()
        """What is to be said of a job that had finished and has nothing new to read."""
        self.failures: deque[Failure] = deque(maxlen=MOST_NEWS)
        """Failures, that of the job itself included, for the drive to take and log."""
        self.setback: Failure | None = None
        """The last failure, until an epoch is complete again."""
        self.troubles: deque[str] = deque(maxlen=MOST_NEWS)
        """What functions raised when they were closed, after everything else was done; likewise."""
        self.remarks: deque[str] = deque(maxlen=MOST_NEWS)
        """What is worth knowing and no trouble; likewise."""
        self._clock = ports.clock

    @property
    def last_attempt(self) -> int | None:
        return self.attempts[-1].attempt if self.attempts else None

    def begun(self, attempt: int, restored_from: int | None, report: tuple[str, ...]) -> None:
        record = AttemptRecord(attempt, restored_from, self._clock.wall(), report)
        self.attempts.append(record)
        # The first says what the job was started from.
        del self.attempts[1:-MOST_ATTEMPTS]

    def attempt_ended(self, reason: str) -> None:
        """The last attempt is over, if it was not before."""
        if self.attempts and self.attempts[-1].ended_at is None:
            self.attempts[-1].ended_at = self._clock.wall()
            self.attempts[-1].reason = reason

    def will_try_again(
        self, error: Exception, at: float, attempt: int, epoch: int | None, worker: int | None
    ) -> None:
        """The last attempt has failed; the next begins some time later, from an epoch."""
        now = self._clock.monotonic()
        self.setback = Failure(self.last_attempt, error, now, at, attempt, epoch)
        self.failures.append(self.setback)
        self._remember(self.setback, worker)

    def has_given_up(
        self, error: Exception, why: str, worker: int | None, *, is_left: bool
    ) -> None:
        """The job has failed; ``is_left``: another process may go on with it."""
        now = self._clock.monotonic()
        failure = Failure(self.last_attempt, error, now, why_last=why)
        self.failures.append(failure)
        # What becomes of the job of a leader that was replaced, its successor says.
        if not isinstance(error, FencedError):
            self._remember(failure, worker, is_left=is_left)

    def _remember(self, failure: Failure, worker: int | None, *, is_left: bool = False) -> None:
        record = FailureRecord.of(failure, self._clock.wall(), self.past.leader, worker)
        self.past.add(replace(record, outcome=HANDED_OVER) if is_left else record)

    def halted(self, epoch: int | None) -> None:
        """The job has halted; where it was late it has stored rows instead of waiting for them."""
        halted_with = [each for each in self.epochs.records if each.epoch == epoch]
        rows = halted_with[-1].in_flight_rows if halted_with else 0
        if rows:
            self.remarks.append(
                f"epoch {epoch}, with which it halted, holds {rows:,} in-flight rows; "
                "they are processed first when the job goes on from it"
            )

    def ended_elsewhere(self, ended: Ended) -> None:
        """The job has come to its end under the leader before this one."""
        why = f": {ended.reason}" if ended.reason else ""
        self.report = (
            f"{ended.how} in attempt {ended.attempt}, under the process that led the job before"
            f"{why}; nothing was left to do here",
        )

    def had_finished(self, report: tuple[str, ...], epochs: Sequence[EpochRecord]) -> None:
        """The job had finished before, and there is nothing new to read."""
        self.report = report
        self.epochs.known(epochs)
