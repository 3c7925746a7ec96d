"""One attempt: runs the job on its workers, from the launch to one end.

An attempt ends once, for good: by failing, or by finishing. Whatever its workers say after that
is not believed. Its epochs are taken in ``snapshot_coordinator``.
"""

from __future__ import annotations

from typing import Any, Protocol

from mainstay.errors import words
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.closing import CLOSING_S, Closing, Ending, How
from mainstay.runtime.coordinator.epoch_history import EpochHistory
from mainstay.runtime.coordinator.epochs import PendingEpoch, Subtask
from mainstay.runtime.coordinator.global_commits import GlobalCommits
from mainstay.runtime.coordinator.halt import Halt
from mainstay.runtime.coordinator.input_progress import has_moved
from mainstay.runtime.coordinator.queries import Queries, Question, Told
from mainstay.runtime.coordinator.reports import Reports
from mainstay.runtime.coordinator.savepoints import Wishes
from mainstay.runtime.coordinator.slowness import Silent, Slowness, silent
from mainstay.runtime.coordinator.snapshot_coordinator import SnapshotCoordinator
from mainstay.runtime.coordinator.sourcing import Sourcing
from mainstay.runtime.coordinator.standstill import Standstill
from mainstay.runtime.messages import (
    Acknowledge,
    Answered,
    Attempt,
    Decline,
    Epoch,
    Ready,
    Release,
    TaskMetrics,
    WorkerFailed,
)
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.history import Finished
from mainstay.snapshot.manifest import FileRef, Manifest


class Owner(Protocol):
    """Whom an attempt tells what it has come to."""

    def running(self) -> None:
        """Every worker is ready."""

    def committed(self, place: FileRef, manifest: Manifest, is_last: bool) -> None:
        """An epoch is in the log; the attempt ends with it if it is the last."""

    def saved_epoch(self) -> Epoch | None:
        """The first epoch of which a savepoint is being written; None if there is none."""

    def ended(self, ending: Ending) -> None:
        """The attempt is over."""


class RunningAttempt:
    """One attempt of one job, from launch to end. ``records`` is told what became of its epochs."""

    def __init__(
        self,
        number: Attempt,
        first_epoch: Epoch,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        claims: Claims,
        restored: Manifest | None,
        records: EpochHistory,
        owner: Owner,
        *,
        plan_again: bool = False,
    ) -> None:
        self.number = number
        self._job = job
        self._ports = ports
        self._claims = claims
        self._owner = owner
        self._reports = Reports(job)
        self._restored = restored
        notes = dict(restored.sources) if restored is not None else {}
        self._sourcing = Sourcing(job, number, ports, notes, self._fail, plan_again=plan_again)
        self._commits = GlobalCommits(
            job, number, options.lineage, ports, self.send_all, self._fail, lambda: claims.is_held
        )
        self._slowness = Slowness(job, options.snapshots.every_s)
        self._standstill = Standstill(job)
        self._closing: Closing | None = None
        self._snapshots = SnapshotCoordinator(
            number,
            first_epoch,
            job,
            options,
            ports,
            claims,
            sourcing=self._sourcing,
            commits=self._commits,
            reports=self._reports,
            records=records,
            send_all=self.send_all,
            committed=owner.committed,
            saved_epoch=owner.saved_epoch,
            failed=self._fail,
        )
        self._queries = Queries(number, job, ports.send, self._last_epoch)
        self.book = self._snapshots.book
        self.commit_next = self._snapshots.commit_next

    @property
    def is_over(self) -> bool:
        """Whether nothing more is triggered or believed."""
        return self._snapshots.is_shut_down

    def is_running(self) -> bool:
        return not self.is_over and self._reports.are_all_ready

    @property
    def metrics(self) -> dict[Subtask, TaskMetrics]:
        """What each subtask last reported."""
        return dict(self._reports.metrics)

    @property
    def earlier_metrics(self) -> dict[Subtask, TaskMetrics]:
        """The same some seconds ago."""
        return self._reports.earlier()

    def report_ages(self) -> dict[Subtask, float]:
        """How long ago each subtask has reported."""
        return self._reports.ages(self._ports.clock.monotonic())

    @property
    def confirmed(self) -> int:
        """The epoch up to which every sink has confirmed; the newest where there is none."""
        return self._reports.confirmed(self.book.next_epoch)

    # ------------------------------------------------------------ messages

    def receive(self, message: Any) -> None:
        """Take a message of a worker. Fencing: other attempts are not believed."""
        if not self._is_own(message):
            return
        now = self._ports.clock.monotonic()
        if self._closing is not None:
            self._closing.hear(message, now)
            if not self._closing.workers:
                self.hurry()
        if self.is_over:
            return
        self._reports.take(message, now)
        match message:
            case Ready():
                self._on_ready()
            case Acknowledge():
                self._snapshots.acknowledge(message)
            case Decline(_, epoch, task, subtask, reason):
                self._snapshots.decline(epoch, f"{task}[{subtask}]: {reason}")
            case Answered():
                self._queries.answered(message)
            case WorkerFailed(_, worker, error):
                self._fail(error, None if worker < 0 else worker)

    def ask(self, question: Question, tell: Told) -> None:
        """Ask those who own live state."""
        self._queries.ask(question, tell)

    def _last_epoch(self) -> int | None:
        latest = self._claims.history.latest_epoch
        return None if latest is None else latest.epoch

    def _is_own(self, message: Any) -> bool:
        return bool(message.attempt == self.number)

    def _on_ready(self) -> None:
        if self.is_running():
            self._owner.running()
            self._sourcing.start(self._restored)
            self._commits.start(self._restored)

    def problems(self, now: float) -> list[Problem]:
        """What the attempt waits for, and goes on by itself once that is over."""
        if not self.is_running():
            return []
        outside = self._commits.problems(now) + self._sourcing.problems(now)
        outside += self._reports.problems(now)
        if self._snapshots.is_held_up_by_targets(now):
            return outside  # what is in line waits for the target
        is_halting = self._snapshots.halt is not None
        # Copies: it may be a thread of the user's that asks.
        pending, metrics = list(self.book.pending.values()), self.metrics
        slow = self._slowness.problems(pending, metrics, now, is_halting=is_halting)
        return outside + slow + self._standstill.problems(metrics, self._reports.ended, now)

    def silent(self) -> list[Silent]:
        """The operators that have emitted nothing so far for the rows they took."""
        return silent(self._job, self.metrics)

    def has_progressed(self, manifest: Manifest) -> bool:
        """Whether an epoch has rows that the one before this attempt did not have.

        A reader's first poll may give a position without a row: metrics know better, but may be
        of a moment after the marker.
        """
        metrics = self._reports.metrics.values()
        has_rows = not metrics or any(each.rows for each in metrics)
        return has_rows and has_moved(self._restored, manifest)

    def send_all(self, message: Any) -> None:
        for worker in range(self._job.workers):
            self._ports.send(worker, message)

    # ------------------------------------------------------------ halting

    def halt(self, halt: Halt) -> None:
        """Come to a standstill with one last epoch, unless the job ends by itself before."""
        self._snapshots.halt = halt

    # ------------------------------------------------------------ time

    def tick(self, now: float, wishes: Wishes) -> None:
        if self._closing is not None and now >= self._closing.until:
            self.hurry()
        if not self.is_running():
            return
        self._snapshots.expire(now)
        if not self.is_running():
            return
        self._snapshots.overtake_if_due(now)
        self._sourcing.tick(now)
        self._commits.tick(now)
        self._snapshots.drain_if_asked()
        if self._snapshots.final is None:
            self._snapshots.trigger_if_due(now, wishes)
        else:
            self._finish_if_confirmed(self._snapshots.final, wishes)

    def deadline(self, wishes: Wishes) -> float | None:
        if self._closing is not None:
            return self._closing.until
        if not self.is_running():
            return None
        parts = (self._sourcing.deadline(), self._commits.deadline())
        times = (self._snapshots.deadline(wishes), *parts)
        return min((time for time in times if time is not None), default=None)

    # ------------------------------------------------------------ ends

    def _finish_if_confirmed(self, final: PendingEpoch, wishes: Wishes) -> None:
        """All sinks have confirmed the final epoch, and databases of state have it: claim
        ``Finished``, then release workers."""
        if not self._claims.is_settled:
            return
        halt = self._snapshots.halt
        is_awaited = halt is None or halt.awaits_sinks or final.is_final
        if is_awaited and (self._is_awaiting(final.epoch) or wishes.is_saving):
            return
        if final.is_last:
            self._release(How.HALTED)
            return
        finished = Finished(final.epoch, self.number)
        self._claims.claim(finished, lambda: self._release(How.FINISHED), self._fail)

    def _is_awaiting(self, epoch: Epoch) -> bool:
        """Whether something outside is to have all of an epoch and has not."""
        settled = self._reports.settled(self.book.next_epoch)
        return self.confirmed < epoch or (settled < epoch and not self._snapshots.is_held)

    def _release(self, how: How) -> None:
        """Let the workers end in good order, and wait until their functions are closed."""
        self._snapshots.shut_down()
        self._queries.end(f"attempt {self.number} has come to its end")
        until = self._ports.clock.monotonic() + CLOSING_S
        self._closing = Closing(how, set(range(self._job.workers)), until)
        self.send_all(Release(self.number))

    def hurry(self) -> None:
        """If the attempt has ended but for the closing of functions, it has ended."""
        closing, self._closing = self._closing, None
        if closing is not None:
            self._owner.ended(closing.ending())

    def _fail(self, error: Exception, worker: int | None = None) -> None:
        if self.is_over:
            return
        self.end(words(error))
        self._owner.ended(Ending(How.FAILED, error, worker=worker))

    def end(self, reason: str) -> None:
        """The attempt is over: nothing more is triggered or believed."""
        self._queries.end(f"the attempt that was asked has ended: {reason}")
        self._snapshots.abandon(reason)

    def check_invariants(self) -> None:
        self._snapshots.check_invariants()
