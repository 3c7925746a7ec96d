"""The coordinator: runs a job over any number of attempts.

It is told three things: messages of workers, the end of background work, and that time has
passed (``tick``). The commit log decides: a coordinator that loses a slot has been replaced.

::

    STARTING ── log read, begin won ──▶ LAUNCHING ── all workers ready ──▶ RUNNING
        ▲                                   │                                 │
        └──── RESTARTING (a wait) ◀─────────┴──── a worker failed, rescaled ◀─┤
                                                                              ▼
                FAILED / CANCELLED                  final epoch committed: FINISHED
                                                    halted on request: STOPPED
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from mainstay.errors import (
    DamagedFileError,
    FencedError,
    GraphError,
    JobFailedError,
    RestoreError,
    SourceError,
    UserFunctionError,
)
from mainstay.runtime.attempt import RunningAttempt
from mainstay.runtime.claims import Claims
from mainstay.runtime.epoch_history import EpochHistory
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.loading import Loaded, choose_first, choose_latest, load
from mainstay.runtime.messages import Attempt, Epoch, Release, TaskMetrics, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.origin import place_of
from mainstay.runtime.ports import Ports
from mainstay.runtime.recovery import RestorePlan, plan_restore
from mainstay.runtime.requests import Requests
from mainstay.runtime.restart import RestartStrategy
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import AttemptRecord, Problem, Status
from mainstay.runtime.worker import Deployment
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.history import Begin, EpochCommitted, History
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.retention import Retention, orphans
from mainstay.state.keygroups import HASH_ID

MOST_ATTEMPTS = 1000
"""How many attempts a leader remembers, beside its first."""

_SHOWN_AS_IT_IS = (UserFunctionError, JobFailedError, RestoreError, FencedError, SourceError)
"""Errors that say enough by themselves; others are given the job's name."""


class Cluster(Protocol):
    """Starts and ends the workers of an attempt."""

    def launch(self, deployment: Deployment) -> None:
        """Start every worker; each reports ``Ready`` when it can go on."""

    def end(self, attempt: Attempt) -> None:
        """End the workers of an attempt. Some may live on for a while; fencing covers that."""


class Coordinator:
    """Runs one job as one leader."""

    def __init__(
        self,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        cluster: Cluster,
        tokens: Callable[[], str],
    ) -> None:
        self.status = Status.STARTING
        self.error: Exception | None = None
        self._epochs = EpochHistory(ports)
        self.attempts: list[AttemptRecord] = []
        self._job = job
        self._options = options
        self._ports = ports
        self._cluster = cluster
        self._leader = tokens()
        self._claims = Claims(ports, options.snapshots, tokens, self._lost)
        self._strategy = RestartStrategy(options.restart)
        self._retention = Retention(options.snapshots.retain)
        self._attempt: RunningAttempt | None = None
        self._restart_at: float | None = None
        self._damaged: set[int] = set()
        self._requests = Requests(ports, options.name)
        self.savepoint = self._requests.savepoint
        self.stop = self._requests.stop
        self.rescale = self._requests.rescale

    # ------------------------------------------------------------ what it is told

    def start(self) -> None:
        """Read the log and begin the first attempt of this leader."""
        self._load()

    def receive(self, message: Any) -> None:
        """Take a message of a worker."""
        if self._attempt is not None:
            self._attempt.receive(message)
        self.tick()

    def worker_lost(self, attempt: Attempt, worker: int, reason: str) -> None:
        """The drive has seen a worker end without a word."""
        error = JobFailedError(f"worker {worker} of attempt {attempt} was lost: {reason}")
        self.receive(WorkerFailed(attempt, worker, error))

    def attempt_lost(self, attempt: Attempt, reason: str) -> None:
        """The drive has seen the workers end, and cannot tell which was the first."""
        error = JobFailedError(f"attempt {attempt} was lost: {reason}")
        self.receive(WorkerFailed(attempt, -1, error))

    def tick(self) -> None:
        """Do what time has made due. Called often; cheap when nothing is."""
        now = self._ports.clock.monotonic()
        self._claims.tick(now)
        if self._restart_is_due(now):
            self._restart_at = None
            self._load()
        self._requests.tick(self._claims)
        if self._attempt is not None:
            self._attempt.tick(now)

    def _restart_is_due(self, now: float) -> bool:
        # A claim under way may add an epoch to the log: where to restart is not known before.
        return self._restart_at is not None and now >= self._restart_at and not self._claims.is_busy

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do, if nothing is reported before."""
        times = [self._claims.deadline(), self._attempt.deadline() if self._attempt else None]
        if not self._claims.is_busy:
            times.append(self._restart_at)
        return min((time for time in times if time is not None), default=None)

    @property
    def workers(self) -> int:
        """How many workers an attempt has."""
        return self._job.workers

    @property
    def records(self) -> list[EpochRecord]:
        """The newest epochs, oldest first."""
        return self._epochs.records

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask of the current attempt last reported."""
        return dict(self._attempt.metrics) if self._attempt is not None else {}

    def problems(self) -> list[Problem]:
        """What the job waits for just now, and goes on by itself once that is over."""
        if self._attempt is None:
            return []
        return self._attempt.problems(self._ports.clock.monotonic())

    def cancel(self) -> None:
        """End the job without finishing it. The last complete epoch can be restored."""
        if not self.status.is_final:
            self._stop("cancelled")
            self._end(Status.CANCELLED)

    def fail(self, error: Exception) -> None:
        """End the job on account of something outside its attempts."""
        if not self.status.is_final:
            self._stop(str(error))
            self._fail_job(error)

    def _stop(self, reason: str) -> None:
        if self._attempt is not None and not self._attempt.is_over:
            self._attempt.send_all(Release(self._attempt.number))
            self._attempt.end(reason)
            self._cluster.end(self._attempt.number)
        self._close_attempt(reason)

    # ------------------------------------------------------------ beginning an attempt

    def _load(self) -> None:
        """Read the log and what the next attempt starts from.

        Until this leader has begun an attempt, that is what the user asked for; from then on it
        is the latest epoch.
        """
        storage, damaged = self._ports.storage, frozenset(self._damaged)
        restore, has_begun = self._options.restore, bool(self.attempts)
        open_place = self._ports.open

        def choose(history: History) -> EpochCommitted | None:
            if has_begun:
                return choose_latest(history, damaged)
            return choose_first(history, restore, damaged)

        self._ports.background.submit(
            lambda: load(storage, choose, restore.origin, open_place),
            self._on_loaded,
            self._on_load_failed,
        )

    def _on_load_failed(self, error: Exception) -> None:
        if self.status.is_final:
            return
        if isinstance(error, RestoreError):
            self._fail_job(error)
        else:
            self._try_again(error)

    def _on_loaded(self, loaded: Loaded) -> None:
        if self.status.is_final:
            return
        begun = loaded.history.last_begin
        if self.attempts and begun is None:
            # Starting from nothing would count everything again: a disk may just be unmounted.
            self._fail_job(
                RestoreError(
                    f"the history of job {self._options.name!r} has vanished from the snapshot "
                    'directory. Bring the directory back and start with restore="latest".'
                )
            )
        elif self.attempts and begun is not None and begun.leader != self._leader:
            # Restarting now would take the job away from the leader that replaced this one.
            self._fenced(loaded.history.next_slot - 1)
        elif loaded.damage is not None:
            self._skip_damaged(loaded)
        elif loaded.is_finished and not self.attempts:
            self._end(Status.FINISHED)
        else:
            self._begin(loaded.history, loaded.manifest, loaded.origin)

    def _skip_damaged(self, loaded: Loaded) -> None:
        """The manifest is damaged: go back one epoch where that was asked for."""
        assert loaded.damage is not None
        assert loaded.chosen is not None
        if not self._options.restore.fall_back:
            self._fail_job(loaded.damage)
            return
        self._damaged.add(loaded.chosen.epoch)
        self._load()

    def _begin(self, history: History, manifest: Manifest | None, origin: str | None) -> None:
        try:
            plan = self._restore_plan(manifest, origin)
        except (RestoreError, GraphError) as error:
            self._fail_job(error)
            return
        self._claims.history = history
        used = self._attempt.book.next_epoch if self._attempt is not None else 1
        if origin is not None and manifest is not None:
            # Sinks take a number that is not above one they have confirmed for done.
            used = max(used, manifest.epoch + 1)
        is_own = manifest is not None and origin is None
        begin = Begin(
            attempt=history.next_attempt,
            leader=self._leader,
            restored_from=manifest.epoch if manifest is not None and is_own else None,
            lineage=self._lineage(history),
            job=self._options.name,
            max_parallelism=self._job.max_parallelism,
            hash_id=HASH_ID,
            # Numbers that were triggered are not used again, even if nothing came of them.
            next_epoch=max(history.next_epoch, used),
            origin=origin,
            begun_at=self._ports.clock.wall(),
        )
        self._claims.claim(begin, lambda: self._begun(begin, plan, manifest), self._try_again)

    def _lineage(self, history: History) -> str:
        """The name by which sinks know the job: each new history is another one.

        Its attempts and epochs are counted from one again, so that a sink which went by the job's
        name alone would take new rows for rows it has had.
        """
        if history.last_begin is not None:
            return history.last_begin.lineage
        return f"{self._options.lineage}-{self._leader[:12]}"

    def _restore_plan(self, manifest: Manifest | None, origin: str | None) -> RestorePlan:
        if manifest is None:
            return RestorePlan({}, ())
        place = None if origin is None else place_of(origin)[0]
        allowed = self._options.restore.allow_dropped
        return plan_restore(manifest, self._job, allowed, origin=place)

    def _begun(self, begin: Begin, plan: RestorePlan, manifest: Manifest | None) -> None:
        """The slot is won: this leader owns the job, and this attempt is the current one."""
        if self.status.is_final:
            return
        number = Attempt(begin.attempt)
        wall = self._ports.clock.wall()
        self.attempts.append(AttemptRecord(number, begin.restored_from, wall, plan.report))
        # The first says what the job was started from.
        del self.attempts[1:-MOST_ATTEMPTS]
        options = replace(self._options, lineage=begin.lineage)
        self._attempt = RunningAttempt(
            number,
            Epoch(begin.next_epoch),
            self._job,
            options,
            self._ports,
            self._claims,
            manifest,
            self,
        )
        self.status = Status.LAUNCHING
        is_held = self._requests.begun(self._attempt, manifest)
        self._sweep(number)
        self._cluster.launch(
            Deployment(self._job, number, begin.lineage, plan.states, options.tuning, is_held)
        )

    def _sweep(self, attempt: Attempt) -> None:
        """Delete what older attempts left behind and no kept epoch reaches."""
        storage, retain = self._ports.storage, self._options.snapshots.retain
        places = [record.manifest for record in self._claims.history.lineage_epochs()][-retain:]
        pinned = self._requests.savepoints.pinned()

        def work() -> list[tuple[FileRef, Manifest]]:
            kept = [(place, read_manifest(storage, place)) for place in places]
            for path in orphans(storage, kept, attempt, pinned):
                storage.delete(path)
            return kept

        self._retention = Retention(retain)
        # A sweep that fails has deleted nothing that is needed; the next attempt sweeps again.
        self._ports.background.submit(work, self._retention.keep_older, lambda _: None)

    # ------------------------------------------------------------ what an attempt tells

    def running(self) -> None:
        self.status = Status.RUNNING
        self._requests.running()

    def wanted_epoch(self) -> int | None:
        return self._requests.savepoints.wanted_epoch()

    def is_saving(self) -> bool:
        return self._requests.savepoints.is_busy

    def recorded(self, records: list[EpochRecord]) -> None:
        self._epochs.add(records)

    def committed(self, place: FileRef, manifest: Manifest, *, is_last: bool) -> None:
        assert self._attempt is not None
        self._strategy.on_progress()
        self._requests.committed(manifest, self._job, is_last=is_last)
        pinned = self._requests.savepoints.pinned()
        pending = self._attempt.pending_files()
        paths = self._retention.completed(place, manifest, pending, pinned)
        storage = self._ports.storage

        def work() -> None:
            for path in paths:
                storage.delete(path)

        if paths:
            # What could not be deleted is swept up by the next attempt.
            self._ports.background.submit(work, lambda _: None, lambda _: None)

    def failed(self, error: Exception) -> None:
        """The attempt has ended as a whole."""
        assert self._attempt is not None
        self._cluster.end(self._attempt.number)
        self._close_attempt(str(error))
        is_damage = isinstance(error, DamagedFileError)
        # What cannot be restored cannot be restored again either.
        if isinstance(error, RestoreError) and not (is_damage and self._may_fall_back()):
            self._fail_job(error)
        else:
            self._try_again(error)

    def _may_fall_back(self) -> bool:
        restored_from = self.attempts[-1].restored_from
        if not self._options.restore.fall_back or restored_from is None:
            return False
        self._damaged.add(restored_from)
        return True

    def finished(self) -> None:
        self._close_attempt("")
        self._end(Status.FINISHED)

    def halted(self) -> None:
        assert self._attempt is not None
        job = self._requests.halted()
        if job is None:
            self._close_attempt("stopped")
            self._end(Status.STOPPED)
            return
        self._job = job
        self._cluster.end(self._attempt.number)
        self._close_attempt("rescaled")
        self.status = Status.RESTARTING
        self._load()

    # ------------------------------------------------------------ ends

    def _try_again(self, error: Exception) -> None:
        """Whether and when there is another attempt is up to the restart strategy."""
        if self.status.is_final:
            return
        now = self._ports.clock.monotonic()
        wait = self._strategy.on_failure(now)
        if wait is None:
            self._fail_job(error)
            return
        self.status = Status.RESTARTING
        self._restart_at = now + wait

    def _lost(self, slot: int) -> None:
        """Someone else took the slot. Before this leader has begun, it looks again and tries."""
        if self.attempts:
            self._fenced(slot)
        elif not self.status.is_final:
            self.start()

    def _fenced(self, slot: int) -> None:
        if self._attempt is not None and not self._attempt.is_over:
            self._attempt.end("another leader took over")
            self._cluster.end(self._attempt.number)
        self._close_attempt("another leader took over")
        self._fail_job(
            FencedError(
                f"slot {slot} of the commit log was taken by another leader of job "
                f"{self._options.name!r}; this one stops. Run one driver for each snapshot "
                "directory."
            )
        )

    def _close_attempt(self, reason: str) -> None:
        if self.attempts and self.attempts[-1].ended_at is None:
            self.attempts[-1].ended_at = self._ports.clock.wall()
            self.attempts[-1].reason = reason

    def _fail_job(self, error: Exception) -> None:
        if self.status.is_final:
            return
        if isinstance(error, _SHOWN_AS_IT_IS):
            self.error = error
        else:
            self.error = JobFailedError(f"job {self._options.name!r} failed: {error}")
            self.error.__cause__ = error
        self._end(Status.FAILED)

    def _end(self, status: Status) -> None:
        if self.status.is_final:
            return
        self._restart_at = None
        self.status = status
        self._epochs.store()
        self._requests.end(status.value, self.error, is_orderly=status.is_orderly)

    def check_invariants(self) -> None:
        if self._attempt is None:
            return
        self._attempt.check_invariants()
        self._requests.savepoints.check_invariants()
        begin = self._claims.history.last_begin
        assert begin is not None, "an attempt runs without its begin"
        assert begin.attempt >= self._attempt.number, "an attempt runs before its begin"
