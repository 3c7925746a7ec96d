"""Leadership: a coordinator for each term in which this process leads the job.

::

    STANDBY ── elected ──▶ a term: its coordinator runs the job to its end: the handle ends with it
       ▲                     │
       └──── replaced ◀──────┤ the election is lost, or the commit log says that another one leads
                             └─ replaced, and no other term can come: the job has failed here

While the election doubts it, the coordinator claims nothing and has no sink committed.

Everything happens on the loop of the drive; only the election itself may call from elsewhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.drive.background import ThreadBackground
from mainstay.drive.candidate import Ear, Word
from mainstay.ha.election import Election
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.messages import Attempt
from mainstay.runtime.status import AttemptRecord, Problem, Status


def new_token() -> str:
    """A name for a leader or a claim that no other has."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Term:
    """A coordinator, and the background that reports to it while its term lasts."""

    coordinator: Coordinator
    background: ThreadBackground
    past: Callable[[], list[EpochRecord]]
    """Reads the epochs of earlier leaders."""


class Leadership:
    """The terms of one process.

    ``make`` gives the coordinator of a new term. ``replaced`` is called with a coordinator whose
    term has ended and may be followed by another.
    """

    def __init__(
        self,
        election: Election,
        make: Callable[[], Term],
        post: Callable[[Callable[[], None]], None],
        replaced: Callable[[Coordinator], None],
    ) -> None:
        self._election = election
        self._make = make
        self._post = post
        self._replaced = replaced
        self._term: Term | None = None
        self._ear: Ear | None = None
        self.is_in_doubt = False
        """Whether the lease of this process could not be renewed for half its length."""
        self.has_left = False
        """Whether this process was told to end, and leaves the job to others."""
        self._attempts: list[AttemptRecord] = []
        self._records: list[EpochRecord] = []
        self._failures: list[FailureRecord] = []
        self._past: list[EpochRecord] = []
        self._troubled_since: float | None = None

    # ------------------------------------------------------------ the election

    def campaign(self) -> None:
        """Lead when it is this process's turn, which may be at once."""
        self._ear = Ear(lambda: self._post(self._listen))
        self._election.campaign(self._ear)
        self._listen()

    def look(self) -> None:
        """Find out whether this process still leads: before anything else, on every pass.

        It may have been frozen, and what has come in meanwhile is for the leader alone.
        """
        self._election.look()
        self._listen()

    def _listen(self) -> None:
        while (ear := self._ear) is not None and (word := ear.take()) is not None:
            match word:
                case Word.ELECTED:
                    self._on_elected()
                case Word.LOST:
                    self._on_lost()
                case Word.DOUBTED | Word.ASSURED:
                    self._on_doubt(is_doubted=word is Word.DOUBTED)

    def _on_elected(self) -> None:
        self.is_in_doubt = False
        if self._term is None and not self.has_left:
            self._term = self._make()
            self._term.coordinator.start()
            if self._election.can_win_again:
                self._recall(self._term)

    def _recall(self, term: Term) -> None:
        """Epochs of earlier leaders are shown beside those of this process. Nobody needs them."""

        def recalled(past: list[EpochRecord]) -> None:
            self._past = past

        term.background.submit(term.past, recalled, lambda _: None)

    def _on_doubt(self, *, is_doubted: bool) -> None:
        self.is_in_doubt = is_doubted
        if self._term is not None:
            self._term.coordinator.doubt(is_doubted)

    def _on_lost(self) -> None:
        self.is_in_doubt = False
        if self._term is not None:
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
        self._failures = term.coordinator.chronicle.past.records
        self._term = None
        self._replaced(term.coordinator)
        return True

    def guard(self) -> Callable[[], bool]:
        """Tells, from any thread, whether the campaign of now still has the lead, by the clock."""
        ear = self._ear

        def leads() -> bool:
            if not self._election.can_win_again:
                return True
            self._election.look()
            return ear is not None and ear is self._ear and ear.stands

        return leads

    def leave(self) -> None:
        """Take no part any more: the attempt ends here, and another process may go on."""
        self.has_left = True
        if self._term is not None:
            self._term.coordinator.hand_over()
            self._end_term_if_replaced()

    def close(self) -> None:
        """This process takes no part any more."""
        self._ear = None
        self._election.resign()

    # ------------------------------------------------------------ what the drive tells

    def tick(self) -> None:
        """Do what time has made due."""
        if self._term is None:
            return
        self._term.coordinator.tick()
        self._note(self._term.coordinator)
        if self._end_term_if_replaced() and not self.has_left:
            # The election still takes this process for the leader: it stands in line again.
            self._ear = None
            self._election.resign()
            self.campaign()

    def _note(self, leader: Coordinator) -> None:
        if self._election.can_win_again and leader.attempts:
            self._election.note(leader.attempts[-1].attempt, leader.last_epoch)

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
            self._term = self._make()
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
        return self.has_left if coordinator is None else coordinator.is_done

    @property
    def status(self) -> Status:
        coordinator = self.coordinator
        if coordinator is not None:
            return coordinator.status
        ear = self._ear
        is_standby = self.has_left or (ear is not None and not ear.is_elected)
        return Status.STANDBY if is_standby else Status.STARTING

    @property
    def leader(self) -> str:
        """Who leads the job, as far as the election knows; empty where it does not."""
        return self._election.leader

    def problems(self, now: float) -> list[Problem]:
        """What keeps this process from leading, or from being sure that it does."""
        trouble = self._election.trouble
        if not trouble and not self.is_in_doubt:
            self._troubled_since = None
            return []
        if self._troubled_since is None:
            self._troubled_since = now
        subject = "the lease of this process" if self.is_in_doubt else "the election"
        what = "could not be renewed" if self.is_in_doubt else "has not worked"
        return [Problem(subject, what, trouble, now - self._troubled_since)]

    @property
    def silent_s(self) -> float:
        """For how long the leader before had been silent when this process was elected."""
        return self._election.silent_s

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
    def failures(self) -> list[FailureRecord]:
        """All failures that are known, under whichever leader, oldest first."""
        term = self._term
        return self._failures if term is None else term.coordinator.chronicle.past.records

    @property
    def records(self) -> list[EpochRecord]:
        """The epochs of all terms of this process, and of those before it, oldest first."""
        current = [] if (term := self._term) is None else term.coordinator.records
        if not self._records and not self._past:
            return current
        # What this process has seen itself, it knows better than the log does.
        known = {(each.epoch, each.attempt): each for each in self._past}
        known |= {(each.epoch, each.attempt): each for each in [*self._records, *current]}
        return [known[key] for key in sorted(known)]
