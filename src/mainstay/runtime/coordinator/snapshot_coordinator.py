"""The snapshot coordinator of one attempt: takes its epochs, each from the trigger to the log.

It triggers an epoch when one is due, gathers the acknowledgements, stores the manifest, claims the
slot and tells everybody that the epoch is complete. An epoch that fails or is late is aborted, and
the job goes on. When the attempt is halted, it takes the one epoch to halt with.

A commit that is under way when the attempt ends is decided all the same, because the slot may have
been won.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.errors import JobFailedError
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.epoch_history import EpochHistory
from mainstay.runtime.coordinator.epochs import EpochBook, PendingEpoch
from mainstay.runtime.coordinator.global_commits import GlobalCommits
from mainstay.runtime.coordinator.halt import Halt
from mainstay.runtime.coordinator.loops import LOOK_S, Loops
from mainstay.runtime.coordinator.manifests import manifest_of
from mainstay.runtime.coordinator.overtaking import Overtaking
from mainstay.runtime.coordinator.reports import Reports
from mainstay.runtime.coordinator.savepoints import Wishes
from mainstay.runtime.coordinator.sourcing import Sourcing
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    Attempt,
    Drain,
    EndLoops,
    Epoch,
    EpochComplete,
    Overtake,
    Trigger,
)
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.checked import reference
from mainstay.snapshot.history import EpochCommitted
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.spelling import counted

Committed = Callable[[FileRef, Manifest, bool], None]
"""Told of an epoch that is in the log, and whether the attempt ends with it."""


class SnapshotCoordinator:
    """The epochs of one attempt, from trigger to commit.

    ``records`` is told of every epoch that has ended, one way or another. ``failed`` is called when
    too many have failed for the attempt to go on.
    """

    def __init__(
        self,
        attempt: Attempt,
        first_epoch: Epoch,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        claims: Claims,
        *,
        sourcing: Sourcing,
        commits: GlobalCommits,
        reports: Reports,
        records: EpochHistory,
        send_all: Callable[[Any], None],
        committed: Committed,
        saved_epoch: Callable[[], Epoch | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.is_shut_down = False
        self.halt: Halt | None = None
        """Set when the attempt is to come to a standstill with one last epoch."""
        self.final: PendingEpoch | None = None
        self.is_held = False
        """Whether databases of state were told of the last epoch while a savepoint read them: they
        take it in when their workers are released."""
        """The epoch that the attempt ends with, once it is in the log."""
        self._attempt = attempt
        self._job = job
        self._options = options
        self._ports = ports
        self._claims = claims
        self._sourcing = sourcing
        self._commits = commits
        self._reports = reports
        self._records = records
        self._send_all = send_all
        self._committed = committed
        self._saved_epoch = saved_epoch
        self._failed = failed
        self._loops = Loops(job)
        self._overtaking = Overtaking(job, options.snapshots)
        self._is_draining = False
        now = ports.clock.monotonic()
        self.book = EpochBook(attempt, reports.subtasks, options.snapshots, first_epoch, now)

    def is_held_up_by_targets(self, now: float) -> bool:
        """Whether a target is away. It holds back markers, too: no epoch is late on its account."""
        return bool(self._commits.problems(now)) or self._reports.are_targets_away

    # ------------------------------------------------------------ time

    def expire(self, now: float) -> None:
        """Give up the epochs that are past their time."""
        if self.is_held_up_by_targets(now):
            self.book.postpone(now)
        for epoch in self.book.expired(now):
            self._abort(epoch, f"not complete after {self._options.snapshots.timeout_s} s")

    def overtake_if_due(self, now: float) -> None:
        """Markers that are not there by now go before the rows that they wait behind."""
        if self.halt is not None:
            self._overtaking.halting(self.halt, self.book.pending.values(), now)
        for epoch in self._overtaking.due(self.book.pending.values(), now):
            self._send_all(Overtake(self._attempt, epoch))

    def drain_if_asked(self) -> None:
        """End the input where it stands, once, if the attempt is to halt in this way."""
        if self.halt is not None and self.halt.drain and not self._is_draining:
            self._is_draining = True
            self._send_all(Drain(self._attempt))

    def trigger_if_due(self, now: float, wishes: Wishes) -> None:
        """Begin an epoch if it is time for one, unless the last one is there or under way."""
        due = self._next_trigger(wishes)
        has_ended = self._reports.have_all_ended
        if due is None or (now < due and not has_ended):
            return
        notes, wall = self._sourcing.notes(), self._ports.clock.wall()
        is_saved = wishes.epoch is not None and self.book.next_epoch >= wishes.epoch
        # Input that was drained has not come to its end: there is more of it.
        is_final = has_ended and not self._is_draining
        is_last = self.halt is not None and not is_final and has_ended == self.halt.drain
        pending = self.book.begin(now, wall, notes, is_final=is_final, is_last=is_last)
        self._loops.triggered(pending.epoch, self._reports.ended)
        pending.is_saved = is_saved
        self._send_all(Trigger(self._attempt, pending.epoch, is_last))
        self._overtaking.begun(pending, now, is_last=is_last)
        self.overtake_if_due(now)

    def deadline(self, wishes: Wishes) -> float | None:
        times = [self.book.next_timeout(), self._next_trigger(wishes)]
        times += [pending.overtake_at for pending in self.book.pending.values()]
        return min((time for time in times if time is not None), default=None)

    def _next_trigger(self, wishes: Wishes) -> float | None:
        """When the next epoch is due; None while it waits for others, or there is to be none."""
        if self.final is not None or self.book.final_is_pending:
            return None
        is_halting = self.halt is not None and not self.halt.drain
        wanted = wishes.next_epoch
        is_wanted = wanted is not None and all(epoch < wanted for epoch in self.book.pending)
        if is_halting or is_wanted:
            return self.book.next_urgent_trigger()
        if self._loops.wants_epoch(self._reports.ended):
            return self.book.next_trigger_within(LOOK_S)
        return self.book.next_trigger()

    # ------------------------------------------------------------ what subtasks say

    def acknowledge(self, message: Acknowledge) -> None:
        """A subtask has stored its part of an epoch."""
        pending = self.book.acknowledge(message)
        if pending is not None:
            pending.is_committing = True
            self.commit_next()

    def decline(self, epoch: Epoch, reason: str) -> None:
        """Once everyone has acknowledged, only the log decides what becomes of an epoch."""
        pending = self.book.pending.get(epoch)
        if pending is not None and not pending.is_committing:
            self._abort(epoch, reason)

    # ------------------------------------------------------------ commit

    def commit_next(self) -> None:
        """Commit the oldest epoch that is whole, if no other claim is under way."""
        pending = self.book.oldest_whole()
        if pending is not None and self._claims.is_settled and not self.is_shut_down:
            self._commit(pending)

    def _commit(self, pending: PendingEpoch) -> None:
        manifest = manifest_of(pending, self._attempt, self._job, self._options)
        storage = self._ports.storage

        def store() -> EpochCommitted:
            # In the background: with many subtasks it takes as long as all else of an epoch.
            data = manifest.to_bytes()
            place = reference(manifest_path(manifest.epoch, manifest.attempt), data)
            storage.write(place.path, data)
            return EpochCommitted(manifest.epoch, manifest.attempt, place)

        def is_wanted() -> bool:
            if self.is_shut_down:
                self._close(pending, "the attempt ended before it was committed")
            return not self.is_shut_down

        def failed(error: Exception) -> None:
            reason = f"the manifest could not be stored: {error}"
            if self.is_shut_down:
                self._close(pending, reason)
            else:
                self._abort(pending.epoch, reason)
                self.commit_next()

        self._claims.commit(
            store,
            lambda record: self._won(pending, record.manifest, manifest),
            failed,
            is_wanted=is_wanted,
        )

    def _won(self, pending: PendingEpoch, place: FileRef, manifest: Manifest) -> None:
        """The epoch is in the log. It counts even if the attempt has failed meanwhile."""
        record, subsumed = self.book.complete(pending.epoch, self._ports.clock.monotonic())
        is_last = pending.is_final or pending.is_last
        self._records.add([*subsumed, record])
        self._committed(place, manifest, is_last)
        if self.is_shut_down:
            return
        for older in subsumed:
            self._send_all(AbortEpoch(self._attempt, older.epoch))
        saved = self._saved_epoch()
        self.is_held = saved is not None
        self._send_all(EpochComplete(self._attempt, pending.epoch, saved))
        self._commits.epoch_complete(manifest)
        self._sourcing.epoch_complete(manifest)
        if self._loops.is_ended_by(manifest):
            self._send_all(EndLoops(self._attempt))
        if is_last:
            self.final = pending
        self.commit_next()

    # ------------------------------------------------------------ ends

    def _close(self, pending: PendingEpoch, reason: str) -> None:
        now = self._ports.clock.monotonic()
        self._records.add([self.book.fail(pending.epoch, now, reason)])

    def _abort(self, epoch: Epoch, reason: str) -> None:
        """Give an epoch up. The job goes on, unless too many failed in a row."""
        if epoch not in self.book.pending:
            return
        now = self._ports.clock.monotonic()
        # A target that is away is waited for, however many epochs that takes.
        counts = not self.is_held_up_by_targets(now)
        self._records.add([self.book.fail(epoch, now, reason, counts=counts)])
        self._send_all(AbortEpoch(self._attempt, epoch))
        if self.book.has_failed_too_often:
            self._failed(
                JobFailedError(
                    f"{counted(self.book.failures_in_a_row, 'epoch')} in a row failed, the last "
                    f"one ({epoch}) because: {reason}"
                )
            )

    def shut_down(self) -> None:
        """Nothing more is triggered or committed, but for a commit that is under way."""
        self.is_shut_down = True

    def abandon(self, reason: str) -> None:
        """Shut down, and give up the epochs that are under way."""
        self.shut_down()
        now = self._ports.clock.monotonic()
        self._records.add(self.book.abandon(now, f"the attempt ended: {reason}"))

    def check_invariants(self) -> None:
        whole = self.book.oldest_whole()
        assert whole is None or not whole.waiting, f"epoch {whole} is committed before it is whole"
