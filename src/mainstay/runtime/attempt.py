"""One attempt: triggers epochs, gathers acknowledgements, commits, and sees the job to its end.

An attempt ends once, for good: by failing, or by finishing. Whatever its workers say after that
is not believed. A commit that was under way when it failed is decided all the same, because the
slot may have been won.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mainstay.errors import JobFailedError
from mainstay.runtime.claims import Claims
from mainstay.runtime.committing import manifest_of
from mainstay.runtime.epochs import EpochBook, EpochRecord, PendingEpoch, Subtask
from mainstay.runtime.global_commits import GlobalCommits
from mainstay.runtime.halting import Halt
from mainstay.runtime.loops import LOOK_S, Loops
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    Attempt,
    Committed,
    Decline,
    Drain,
    Ended,
    EndLoops,
    Epoch,
    EpochComplete,
    Metrics,
    OutsideProblem,
    Overtake,
    Ready,
    Release,
    Released,
    TaskMetrics,
    Trigger,
    WorkerFailed,
)
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.slowness import Silent, Slowness, silent
from mainstay.runtime.sourcing import Sourcing
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.checked import reference
from mainstay.snapshot.history import EpochCommitted, Finished
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import FileRef, Manifest

CLOSING_S = 10.0
"""How long functions may take to close, at the end of a job, before they are left to it."""
LAST_WORDS_S = 2.0


class Owner(Protocol):
    """Whom an attempt tells what it has come to."""

    def running(self) -> None:
        """Every worker is ready."""

    def recorded(self, records: list[EpochRecord]) -> None:
        """Epochs have ended, one way or another."""

    def committed(self, place: FileRef, manifest: Manifest, *, is_last: bool) -> None:
        """An epoch is in the log; the attempt ends with it if it is the last."""

    def wanted_epoch(self) -> int | None:
        """The lowest number of an epoch that somebody waits for; None if nobody does."""

    def is_saving(self) -> bool:
        """Whether a savepoint is under way, so that the job must not end yet."""

    def failed(self, error: Exception) -> None:
        """The attempt cannot go on."""

    def finished(self) -> None:
        """The job is done: its end is in the log."""

    def halted(self) -> None:
        """The attempt has come to the standstill that was asked for."""

    def not_closed(self, worker: int, trouble: str) -> None:
        """Functions of a worker raised when they were closed. Nothing else depends on it."""


@dataclass(slots=True)
class _Progress:
    """What the workers have reported so far."""

    ready: set[int]
    ended: set[Subtask]
    confirmed: dict[Subtask, Epoch]
    problems: dict[Subtask, tuple[Problem, float]]
    """By sink and subtask, with the time at which each began."""


@dataclass(slots=True)
class _Closing:
    """The workers were released in good order: who still closes, until when, and what follows."""

    workers: set[int]
    until: float
    then: Callable[[], None]


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
        self.metrics: dict[Subtask, TaskMetrics] = {}
        self._job = job
        self._options = options
        self._ports = ports
        self._claims = claims
        self._owner = owner
        self._subtasks = frozenset((task.id, subtask) for task, subtask in job.subtasks())
        self._sinks = [(task.id, subtask) for task, subtask in job.subtasks() if task.has_sink]
        self._sink_uids = {operator.uid for _, operator in job.operators() if operator.sink}
        self._progress = _Progress(set(), set(), {}, {})
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
        self._closing: _Closing | None = None
        self._is_draining = False
        now = ports.clock.monotonic()
        self.book = EpochBook(number, self._subtasks, options.snapshots, first_epoch, now)

    def is_running(self) -> bool:
        return not self.is_over and len(self._progress.ready) == self._job.workers

    # ------------------------------------------------------------ messages

    def receive(self, message: Any) -> None:
        """Take a message of a worker. Fencing: other attempts are not believed."""
        if not self._is_own(message):
            return
        if self._closing is not None:
            self._on_closing(self._closing, message)
        if self.is_over:
            return
        match message:
            case Ready(_, worker):
                self._on_ready(worker)
            case Acknowledge():
                self._on_acknowledge(message)
            case Decline(_, epoch, task, subtask, reason):
                self._decline(epoch, f"{task}[{subtask}]: {reason}")
            case Ended(_, task, subtask):
                self._progress.ended.add((task, subtask))
            case Committed(_, epoch, task, subtask):
                self._progress.confirmed[(task, subtask)] = epoch
            case OutsideProblem(_, uid, subtask, problem):
                self._on_problem((uid, subtask), problem)
            case Metrics(_, worker, tasks):
                for task, figures in tasks.items():
                    self.metrics[(task, worker)] = figures
            case WorkerFailed(_, _, error):
                self._fail(error)

    def _decline(self, epoch: Epoch, reason: str) -> None:
        """Once everyone has acknowledged, only the log decides what becomes of an epoch."""
        pending = self.book.pending.get(epoch)
        if pending is not None and not pending.is_committing:
            self._abort(epoch, reason)

    def _on_problem(self, sink: Subtask, problem: Problem | None) -> None:
        self._progress.problems.pop(sink, None)
        if problem is not None:
            since = self._ports.clock.monotonic() - problem.waited_s
            self._progress.problems[sink] = (problem, since)

    def problems(self, now: float) -> list[Problem]:
        """What the attempt waits for, and goes on by itself once that is over."""
        if not self.is_running():
            return []
        told = sorted(self._progress.problems.items())
        of_workers = [replace(problem, waited_s=now - since) for _, (problem, since) in told]
        outside = self._commits.problems(now) + self._sourcing.problems(now) + of_workers
        if self._is_held_up_by_sinks(now):
            return outside  # what is in line waits for the target
        is_halting = self._halt is not None
        # Copies: it may be a thread of the user's that asks.
        pending, metrics = list(self.book.pending.values()), dict(self.metrics)
        return outside + self._slowness.problems(pending, metrics, now, is_halting=is_halting)

    def silent(self) -> list[Silent]:
        """The operators that have emitted nothing so far for the rows they took."""
        return silent(self._job, dict(self.metrics))

    def _is_held_up_by_sinks(self, now: float) -> bool:
        told = (sink for sink, _ in self._progress.problems)
        return bool(self._commits.problems(now)) or any(uid in self._sink_uids for uid in told)

    def _is_own(self, message: Any) -> bool:
        return bool(message.attempt == self.number)

    def send_all(self, message: Any) -> None:
        for worker in range(self._job.workers):
            self._ports.send(worker, message)

    def _on_ready(self, worker: int) -> None:
        self._progress.ready.add(worker)
        if self.is_running():
            self._owner.running()
            self._sourcing.start(self._restored)
            self._commits.start(self._restored)

    # ------------------------------------------------------------ halting

    def halt(self, halt: Halt) -> None:
        """Come to a standstill with one last epoch, unless the job ends by itself before."""
        self._halt = halt

    @property
    def confirmed(self) -> int:
        """The epoch up to which every sink has confirmed; the newest where there is none."""
        told = self._progress.confirmed
        return min((told.get(sink, 0) for sink in self._sinks), default=self.book.next_epoch)

    def _drain_if_asked(self) -> None:
        if self._halt is not None and self._halt.drain and not self._is_draining:
            self._is_draining = True
            self.send_all(Drain(self.number))

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> None:
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
        self._overtake_if_due(now)
        self._sourcing.tick(now)
        self._commits.tick(now)
        self._drain_if_asked()
        if self._final is None:
            self._trigger_if_due(now)
        else:
            self._finish_if_confirmed(self._final)

    def deadline(self) -> float | None:
        if self._closing is not None:
            return self._closing.until
        if not self.is_running():
            return None
        times = [self.book.next_timeout(), self._sourcing.deadline(), self._commits.deadline()]
        times += [pending.overtake_at for pending in self.book.pending.values()]
        if self._final is None and not self.book.final_is_pending:
            times.append(self._next_trigger())
        return min((time for time in times if time is not None), default=None)

    # ------------------------------------------------------------ epochs

    def _trigger_if_due(self, now: float) -> None:
        due = self._next_trigger()
        has_ended = self._progress.ended == self._subtasks
        if due is None or (now < due and not has_ended) or self.book.final_is_pending:
            return
        notes, wall = self._sourcing.notes(), self._ports.clock.wall()
        # What a savepoint holds must be readable by any program, and what a job halts with is its
        # end: there are no rows on their way in either.
        wanted = self._owner.wanted_epoch()
        is_saving = wanted is not None and self.book.next_epoch >= wanted
        # Input that was drained has not come to its end: there is more of it.
        is_final = has_ended and not self._is_draining
        is_last = self._halt is not None and not is_final and has_ended == self._halt.drain
        pending = self.book.begin(now, wall, notes, is_final=is_final, is_last=is_last)
        self._loops.triggered(pending.epoch, self._progress.ended)
        self.send_all(Trigger(self.number, pending.epoch, is_last))
        if self._job.is_unaligned and not is_saving and not is_last:
            pending.overtake_at = now + self._options.snapshots.alignment_timeout_s
            self._overtake_if_due(now)

    def _overtake_if_due(self, now: float) -> None:
        """Markers that are not there by now go before the rows that they wait behind."""
        for pending in self.book.pending.values():
            if pending.overtake_at is not None and now >= pending.overtake_at:
                pending.overtake_at = None
                pending.is_unaligned = True
                self.send_all(Overtake(self.number, pending.epoch))

    def _next_trigger(self) -> float | None:
        is_halting = self._halt is not None and not self._halt.drain
        wanted = self._owner.wanted_epoch()
        is_wanted = wanted is not None and all(epoch < wanted for epoch in self.book.pending)
        if is_halting or is_wanted:
            return self.book.next_urgent_trigger()
        if self._loops.wants_epoch(self._progress.ended):
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
        if pending is not None and not self._claims.is_busy and not self.is_over:
            self._commit(pending)

    def _commit(self, pending: PendingEpoch) -> None:
        """The manifest must be durable before the slot that names it is tried for."""
        manifest = manifest_of(pending, self.number, self._job, self._options)
        data = manifest.to_bytes()
        place = reference(manifest_path(pending.epoch, self.number), data)
        record = EpochCommitted(pending.epoch, self.number, place)
        storage = self._ports.storage

        def written(_: Any) -> None:
            if self.is_over:
                self._close(pending, "the attempt ended before it was committed")
            else:
                self._claims.claim(record, lambda: self._won(pending, place, manifest), failed)

        def failed(error: Exception) -> None:
            reason = f"the manifest could not be stored: {error}"
            if self.is_over:
                self._close(pending, reason)
            else:
                self._abort(pending.epoch, reason)
                self.commit_next()

        self._writing(lambda: storage.write(place.path, data), written, failed)

    def _writing(
        self,
        work: Callable[[], None],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Keep other claims out while a manifest is written, so that commits keep their order."""
        self._claims.is_busy = True

        def then(report: Callable[[Any], None], result: Any) -> None:
            self._claims.is_busy = False
            report(result)

        self._ports.background.submit(
            work, lambda result: then(done, result), lambda error: then(failed, error)
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
        self.send_all(EpochComplete(self.number, pending.epoch))
        self._commits.epoch_complete(manifest)
        self._sourcing.epoch_complete(manifest)
        if self._loops.is_ended_by(manifest):
            self.send_all(EndLoops(self.number))
        if pending.is_final or pending.is_last:
            self._final = pending
        self.commit_next()

    def pending_files(self) -> list[str]:
        """Files that pending epochs need."""
        return self.book.pending_files()

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
                    f"{self.book.failures_in_a_row} epochs in a row failed, the last one "
                    f"({epoch}) because: {reason}"
                )
            )

    # ------------------------------------------------------------ ends

    def _finish_if_confirmed(self, final: PendingEpoch) -> None:
        """Every sink has confirmed the final epoch: say so in the log, then let go."""
        if self._claims.is_busy:
            return
        is_awaited = self._halt is None or self._halt.awaits_sinks or final.is_final
        if is_awaited and (self.confirmed < final.epoch or self._owner.is_saving()):
            return
        if final.is_last:
            self._release(self._owner.halted)
            return
        finished = Finished(final.epoch, self.number)
        self._claims.claim(finished, lambda: self._release(self._owner.finished), self._fail)

    def _release(self, then: Callable[[], None]) -> None:
        """Let the workers end in good order, and wait until their functions are closed."""
        self.is_over = True
        until = self._ports.clock.monotonic() + CLOSING_S
        self._closing = _Closing(set(range(self._job.workers)), until, then)
        self.send_all(Release(self.number))

    def _on_closing(self, closing: _Closing, message: Any) -> None:
        match message:
            case Released(_, worker, trouble):
                closing.workers.discard(worker)
                if trouble:
                    self._owner.not_closed(worker, trouble)
            case WorkerFailed(_, worker, _) if worker >= 0:
                closing.workers.discard(worker)
            case WorkerFailed():
                # Some worker is no more. Perhaps it was closed; the others are about to be.
                soon = self._ports.clock.monotonic() + LAST_WORDS_S
                closing.until = min(closing.until, soon)
        if not closing.workers:
            self.hurry()

    def hurry(self) -> None:
        """If the attempt has ended but for the closing of functions, it has ended."""
        closing, self._closing = self._closing, None
        if closing is not None:
            closing.then()

    def _fail(self, error: Exception) -> None:
        if self.is_over:
            return
        self.end(str(error))
        self._owner.failed(error)

    def end(self, reason: str) -> None:
        """The attempt is over: nothing more is triggered or believed."""
        self.is_over = True
        now = self._ports.clock.monotonic()
        self._owner.recorded(self.book.abandon(now, f"the attempt ended: {reason}"))

    def check_invariants(self) -> None:
        whole = self.book.oldest_whole()
        assert whole is None or not whole.waiting, f"epoch {whole} is committed before it is whole"
