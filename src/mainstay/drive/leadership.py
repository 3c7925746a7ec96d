"""Leadership: a coordinator for each term in which this process leads the job.

::

    STANDBY ── elected ──▶ a term: its coordinator runs the job to its end: the handle ends with it
       ▲                     │
       └──── replaced ◀──────┤ the election is lost, or the commit log says that another one leads
                             └─ replaced, and no other term can come: the job has failed here

Everything happens on the loop of the drive; only the election itself may call from elsewhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.drive.background import ThreadBackground
from mainstay.ha.election import Election
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.messages import Attempt
from mainstay.runtime.status import AttemptRecord, Status


def new_token() -> str:
    """A name for a leader or a claim that no other has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Term:
    """A coordinator, and the background that reports to it while its term lasts."""

    coordinator: Coordinator
    background: ThreadBackground


class Leadership:
    """The terms of one process.

    ``make`` gives the coordinator of a new term, with whether it succeeds another leader.
    ``replaced`` is called with a coordinator whose term has ended and may be followed by another.
    """

    def __init__(
        self,
        election: Election,
        make: Callable[[bool], Term],
        post: Callable[[Callable[[], None]], None],
        replaced: Callable[[Coordinator], None],
    ) -> None:
        self._election = election
        self._make = make
        self._post = post
        self._replaced = replaced
        self._term: Term | None = None
        self._campaign = 0
        self._is_elected = False
        self._has_stood_by = False
        self._attempts: list[AttemptRecord] = []
        self._records: list[EpochRecord] = []

    # ------------------------------------------------------------ the election

    def campaign(self) -> None:
        """Lead when it is this process's turn, which may be at once."""
        number = self._campaign + 1
        is_current = True

        def elected() -> None:
            self._is_elected = True
            if not is_current:
                self._post(lambda: self._on_elected(number))

        def lost() -> None:
            self._is_elected = False
            self._post(lambda: self._on_lost(number))

        self._is_elected = False
        self._election.campaign(elected, lost)
        self._campaign = number
        is_current = False
        if self._is_elected:
            self._on_elected(number)
        else:
            self._has_stood_by = True

    def _on_elected(self, campaign: int) -> None:
        if campaign == self._campaign and self._term is None:
            self._term = self._make(self._has_stood_by)
            self._term.coordinator.start()

    def _on_lost(self, campaign: int) -> None:
        if campaign == self._campaign and self._term is not None:
            self._term.coordinator.depose()
            self._end_term_if_replaced()

    def _is_replaced(self, coordinator: Coordinator) -> bool:
        return coordinator.is_replaced and self._election.can_win_again

    def _end_term_if_replaced(self) -> bool:
        term = self._term
        if term is None or not self._is_replaced(term.coordinator):
            return False
        term.background.close()
        self._attempts += term.coordinator.attempts
        self._records += term.coordinator.records
        self._has_stood_by = True
        self._term = None
        self._replaced(term.coordinator)
        return True

    def close(self) -> None:
        """This process takes no part any more."""
        self._campaign += 1
        self._election.resign()

    # ------------------------------------------------------------ what the drive tells

    def tick(self) -> None:
        """Do what time has made due."""
        if self._term is None:
            return
        self._term.coordinator.tick()
        if self._end_term_if_replaced():
            # The election still takes this process for the leader: it stands in line again.
            self._election.resign()
            self.campaign()

    def deadline(self) -> float | None:
        return None if self._term is None else self._term.coordinator.deadline()

    def receive(self, message: Any) -> None:
        """A message of a worker. Those of an earlier term are nobody's."""
        if self._term is not None:
            self._term.coordinator.receive(message)

    def worker_lost(self, attempt: Attempt, worker: int, reason: str) -> None:
        """A worker has ended without a word."""
        if self._term is not None:
            self._term.coordinator.workers_lost(attempt, reason, worker)

    def attempt_lost(self, attempt: Attempt, reason: str) -> None:
        """Workers have ended, and it is not known which was the first."""
        if self._term is not None:
            self._term.coordinator.workers_lost(attempt, reason)

    def cancel(self) -> None:
        """End the job here, whether this process leads it or not."""
        self._leading().cancel()

    def fail(self, error: Exception) -> None:
        """End the job here on account of something outside its attempts."""
        self._leading().fail(error)

    def _leading(self) -> Coordinator:
        """Where this process does not lead: that of a term which ends before it has begun."""
        if self._term is None:
            self._term = self._make(self._has_stood_by)
        return self._term.coordinator

    # ------------------------------------------------------------ what it is asked, by any thread

    @property
    def coordinator(self) -> Coordinator | None:
        """That of the current term; None while this process does not lead."""
        term = self._term
        if term is None or self._is_replaced(term.coordinator):
            return None
        return term.coordinator

    @property
    def is_done(self) -> bool:
        """Whether the job is over, and no other term will come."""
        coordinator = self.coordinator
        return coordinator is not None and coordinator.is_done

    @property
    def status(self) -> Status:
        coordinator = self.coordinator
        if coordinator is not None:
            return coordinator.status
        is_starting = self._campaign == 0 or (self._is_elected and self._term is None)
        return Status.STARTING if is_starting else Status.STANDBY

    @property
    def error(self) -> Exception | None:
        coordinator = self.coordinator
        return None if coordinator is None else coordinator.error

    @property
    def attempts(self) -> list[AttemptRecord]:
        """The attempts of all terms of this process, oldest first."""
        current = [] if (term := self._term) is None else term.coordinator.attempts
        return [*self._attempts, *current] if self._attempts else current

    @property
    def records(self) -> list[EpochRecord]:
        """The epochs of all terms of this process, oldest first."""
        current = [] if (term := self._term) is None else term.coordinator.records
        return [*self._records, *current] if self._records else current
