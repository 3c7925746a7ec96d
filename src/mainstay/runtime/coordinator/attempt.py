"""One attempt: triggers epochs, gathers acknowledgements, commits, and sees the job to its end.

An attempt ends once, for good: by failing, or by finishing. Whatever its workers say after that
is not believed. A commit that was under way when it failed is decided all the same, because the
slot may have been won.
"""

from __future__ import annotations

from typing import Any, Protocol

from mainstay.errors import JobFailedError
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.closing import CLOSING_S, Closing, Ending, How
from mainstay.runtime.coordinator.epochs import EpochBook, EpochRecord, PendingEpoch, Subtask
from mainstay.runtime.coordinator.global_commits import GlobalCommits
from mainstay.runtime.coordinator.halt import Halt
from mainstay.runtime.coordinator.input_progress import has_moved
from mainstay.runtime.coordinator.loops import LOOK_S, Loops
from mainstay.runtime.coordinator.manifests import manifest_of
from mainstay.runtime.coordinator.overtaking import Overtaking
from mainstay.runtime.coordinator.reports import Reports
from mainstay.runtime.coordinator.savepoints import Wishes
from mainstay.runtime.coordinator.slowness import Silent, Slowness, silent
from mainstay.runtime.coordinator.sourcing import Sourcing
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    Attempt,
    Decline,
    Drain,
    EndLoops,
    Epoch,
    EpochComplete,
    Overtake,
    Ready,
    Release,
    TaskMetrics,
    Trigger,
    WorkerFailed,
)
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.checked import reference
from mainstay.snapshot.history import EpochCommitted, Finished
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.spelling import counted


class Owner(Protocol):
    """Whom an attempt tells what it has come to."""

    def running(self) -> None:
        """Every worker is ready."""

    def recorded(self, records: list[EpochRecord]) -> None:
        """Epochs have ended, one way or another."""

    def committed(self, place: FileRef, manifest: Manifest, *, is_last: bool) -> None:
        """An epoch is in the log; the attempt ends with it if it is the last."""

    def saved_epoch(self) -> Epoch | None:
        """The first epoch of which a savepoint is being written; None if there is none."""

    def ended(self, ending: Ending) -> None:
        """The attempt is over."""


class RunningAttempt:
    """One attempt of one job, from launch to end."""

    def __init__(
        self,
        number: Attempt,
        first_epoch: Epoch,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        claims: Claims,
        restored: Manifest | None,
        owner: Owner,
        *,
        plan_again: bool = False,
    ) -> None:
        self.number = number
        self.is_over = False
        self._job = job
        self._options = options
        self._ports = ports
        self._claims = claims
        self._owner = owner
        self._reports = Reports(job)
        self._restored = restored
        notes = dict(restored.sources) if restored is not None else {}
        self._sourcing = Sourcing(job, number, ports, notes, self._fail, plan_again=plan_again)
        self._commits = GlobalCommits(
            job, number, options.lineage, ports, self.send_all, self._fail
        )
        self._loops = Loops(job)
        self._slowness = Slowness(job, options.snapshots.every_s)
        self._final: PendingEpoch | None = None
        self._halt: Halt | None = None
        self._overtaking = Overtaking(job, options.snapshots)
        self._closing: Closing | None = None
        self._is_draining = False
        now = ports.clock.monotonic()
        self.book = EpochBook(number, self._reports.subtasks, options.snapshots, first_epoch, now)

    def is_running(self) -> bool:
        return not self.is_over and self._reports.are_all_ready

    @property
    def metrics(self) -> dict[Subtask, TaskMetrics]:
        """What each subtask last reported."""
        return dict(self._reports.metrics)

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
                self._on_acknowledge(message)
            case Decline(_, epoch, task, subtask, reason):
                self._decline(epoch, f"{task}[{subtask}]: {reason}")
            case WorkerFailed(_, _, error):
                self._fail(error)

    def _is_own(self, message: Any) -> bool:
        return bool(message.attempt == self.number)

    def _on_ready(self) -> None:
        if self.is_running():
            self._owner.running()
            self._sourcing.start(self._restored)
            self._commits.start(self._restored)

    def _decline(self, epoch: Epoch, reason: str) -> None:
        """Once everyone has acknowledged, only the log decides what becomes of an epoch."""
        pending = self.book.pending.get(epoch)
        if pending is not None and not pending.is_committing:
            self._abort(epoch, reason)

    def problems(self, now: float) -> list[Problem]:
        """What the attempt waits for, and goes on by itself once that is over."""
        if not self.is_running():
            return []
        outside = self._commits.problems(now) + self._sourcing.problems(now)
        outside += self._reports.problems(now)
        if self._is_held_up_by_sinks(now):
            return outside  # what is in line waits for the target
        is_halting = self._halt is not None
        # Copies: it may be a thread of the user's that asks.
        pending, metrics = list(self.book.pending.values()), self.metrics
        return outside + self._slowness.problems(pending, metrics, now, is_halting=is_halting)

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

    def _is_held_up_by_sinks(self, now: float) -> bool:
        return bool(self._commits.problems(now)) or self._reports.are_sinks_away

    def send_all(self, message: Any) -> None:
        for worker in range(self._job.workers):
            self._ports.send(worker, message)

    # ------------------------------------------------------------ halting

    def halt(self, halt: Halt) -> None:
        """Come to a standstill with one last epoch, unless the job ends by itself before."""
        self._halt = halt

    def _drain_if_asked(self) -> None:
        if self._halt is not None and self._halt.drain and not self._is_draining:
            self._is_draining = True
            self.send_all(Drain(self.number))

    # ------------------------------------------------------------ time

    def tick(self, now: float, wishes: Wishes) -> None:
        if self._closing is not None and now >= self._closing.until:
            self.hurry()
        if not self.is_running():
            return
        if self._is_held_up_by_sinks(now):
            # A target that is away holds back markers, too: no epoch is late on that account.
            self.book.postpone(now)
        for epoch in self.book.expired(now):
            self._abort(epoch, f"not complete after {self._options.snapshots.timeout_s} s")
        if not self.is_running():
            return
        if self._halt is not None:
            self._overtaking.halting(self._halt, self.book.pending.values(), now)
        self._overtake_if_due(now)
        self._sourcing.tick(now)
        self._commits.tick(now)
        self._drain_if_asked()
        if self._final is None:
            self._trigger_if_due(now, wishes)
        else:
            self._finish_if_confirmed(self._final, wishes)

    def deadline(self, wishes: Wishes) -> float | None:
        if self._closing is not None:
            return self._closing.until
        if not self.is_running():
            return None
        times = [self.book.next_timeout(), self._sourcing.deadline(), self._commits.deadline()]
        times += [pending.overtake_at for pending in self.book.pending.values()]
        if self._final is None and not self.book.final_is_pending:
            times.append(self._next_trigger(wishes))
        return min((time for time in times if time is not None), default=None)

    # ------------------------------------------------------------ epochs

    def _trigger_if_due(self, now: float, wishes: Wishes) -> None:
        due = self._next_trigger(wishes)
        has_ended = self._reports.have_all_ended
        if due is None or (now < due and not has_ended) or self.book.final_is_pending:
            return
        notes, wall = self._sourcing.notes(), self._ports.clock.wall()
        is_saved = wishes.epoch is not None and self.book.next_epoch >= wishes.epoch
        # Input that was drained has not come to its end: there is more of it.
        is_final = has_ended and not self._is_draining
        is_last = self._halt is not None and not is_final and has_ended == self._halt.drain
        pending = self.book.begin(now, wall, notes, is_final=is_final, is_last=is_last)
        self._loops.triggered(pending.epoch, self._reports.ended)
        pending.is_saved = is_saved
        self.send_all(Trigger(self.number, pending.epoch, is_last))
        self._overtaking.begun(pending, now, is_last=is_last)
        self._overtake_if_due(now)

    def _overtake_if_due(self, now: float) -> None:
        """Markers that are not there by now go before the rows that they wait behind."""
        for epoch in self._overtaking.due(self.book.pending.values(), now):
            self.send_all(Overtake(self.number, epoch))

    def _next_trigger(self, wishes: Wishes) -> float | None:
        is_halting = self._halt is not None and not self._halt.drain
        wanted = wishes.epoch
        is_wanted = wanted is not None and all(epoch < wanted for epoch in self.book.pending)
        if is_halting or is_wanted:
            return self.book.next_urgent_trigger()
        if self._loops.wants_epoch(self._reports.ended):
            return self.book.next_trigger_within(LOOK_S)
        return self.book.next_trigger()

    def _on_acknowledge(self, message: Acknowledge) -> None:
        pending = self.book.acknowledge(message)
        if pending is not None:
            pending.is_committing = True
            self.commit_next()

    def commit_next(self) -> None:
        """Commit the oldest epoch that is whole, if no other claim is under way."""
        pending = self.book.oldest_whole()
        if pending is not None and self._claims.is_settled and not self.is_over:
            self._commit(pending)

    def _commit(self, pending: PendingEpoch) -> None:
        manifest = manifest_of(pending, self.number, self._job, self._options)
        data = manifest.to_bytes()
        place = reference(manifest_path(pending.epoch, self.number), data)
        record = EpochCommitted(pending.epoch, self.number, place)
        storage = self._ports.storage

        def is_wanted() -> bool:
            if self.is_over:
                self._close(pending, "the attempt ended before it was committed")
            return not self.is_over

        def failed(error: Exception) -> None:
            reason = f"the manifest could not be stored: {error}"
            if self.is_over:
                self._close(pending, reason)
            else:
                self._abort(pending.epoch, reason)
                self.commit_next()

        self._claims.commit(
            lambda: storage.write(place.path, data),
            record,
            lambda: self._won(pending, place, manifest),
            failed,
            is_wanted=is_wanted,
        )

    def _won(self, pending: PendingEpoch, place: FileRef, manifest: Manifest) -> None:
        """The epoch is in the log. It counts even if the attempt has failed meanwhile."""
        record, subsumed = self.book.complete(pending.epoch, self._ports.clock.monotonic())
        self._owner.recorded([*subsumed, record])
        self._owner.committed(place, manifest, is_last=pending.is_final or pending.is_last)
        if self.is_over:
            return
        for older in subsumed:
            self.send_all(AbortEpoch(self.number, older.epoch))
        self.send_all(EpochComplete(self.number, pending.epoch, self._owner.saved_epoch()))
        self._commits.epoch_complete(manifest)
        self._sourcing.epoch_complete(manifest)
        if self._loops.is_ended_by(manifest):
            self.send_all(EndLoops(self.number))
        if pending.is_final or pending.is_last:
            self._final = pending
        self.commit_next()

    def _close(self, pending: PendingEpoch, reason: str) -> None:
        now = self._ports.clock.monotonic()
        self._owner.recorded([self.book.fail(pending.epoch, now, reason)])

    def _abort(self, epoch: Epoch, reason: str) -> None:
        """Give an epoch up. The job goes on, unless too many failed in a row."""
        if epoch not in self.book.pending:
            return
        now = self._ports.clock.monotonic()
        # A target that is away is waited for, however many epochs that takes.
        counts = not self._is_held_up_by_sinks(now)
        self._owner.recorded([self.book.fail(epoch, now, reason, counts=counts)])
        self.send_all(AbortEpoch(self.number, epoch))
        if self.book.has_failed_too_often:
            self._fail(
                JobFailedError(
                    f"{counted(self.book.failures_in_a_row, 'epoch')} in a row failed, the last "
                    f"one ({epoch}) because: {reason}"
                )
            )

    # ------------------------------------------------------------ ends

    def _finish_if_confirmed(self, final: PendingEpoch, wishes: Wishes) -> None:
        """All sinks have confirmed the final epoch: claim ``Finished``, then release workers."""
        if not self._claims.is_settled:
            return
        is_awaited = self._halt is None or self._halt.awaits_sinks or final.is_final
        if is_awaited and (self.confirmed < final.epoch or wishes.is_saving):
            return
        if final.is_last:
            self._release(How.HALTED)
            return
        finished = Finished(final.epoch, self.number)
        self._claims.claim(finished, lambda: self._release(How.FINISHED), self._fail)

    def _release(self, how: How) -> None:
        """Let the workers end in good order, and wait until their functions are closed."""
        self.is_over = True
        until = self._ports.clock.monotonic() + CLOSING_S
        self._closing = Closing(how, set(range(self._job.workers)), until)
        self.send_all(Release(self.number))

    def hurry(self) -> None:
        """If the attempt has ended but for the closing of functions, it has ended."""
        closing, self._closing = self._closing, None
        if closing is not None:
            self._owner.ended(closing.ending())

    def _fail(self, error: Exception) -> None:
        if self.is_over:
            return
        self.end(str(error))
        self._owner.ended(Ending(How.FAILED, error))

    def end(self, reason: str) -> None:
        """The attempt is over: nothing more is triggered or believed."""
        self.is_over = True
        now = self._ports.clock.monotonic()
        self._owner.recorded(self.book.abandon(now, f"the attempt ended: {reason}"))

    def check_invariants(self) -> None:
        whole = self.book.oldest_whole()
        assert whole is None or not whole.waiting, f"epoch {whole} is committed before it is whole"
