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

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from mainstay.errors import (
    DamagedFileError,
    FencedError,
    GraphError,
    JobFailedError,
    MainstayError,
    RestoreError,
    SourceError,
    UserFunctionError,
)
from mainstay.runtime.attempt import RunningAttempt
from mainstay.runtime.claims import Claims
from mainstay.runtime.epoch_history import EpochHistory
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.farewell import Farewell
from mainstay.runtime.loading import Loaded, choose_first, choose_latest, load
from mainstay.runtime.messages import Attempt, Epoch, Release, TaskMetrics, WorkerFailed
from mainstay.runtime.news import News, look_for_news
from mainstay.runtime.options import JobOptions
from mainstay.runtime.origin import place_of, without_handles
from mainstay.runtime.ports import Ports
from mainstay.runtime.recovery import RestorePlan, plan_restore
from mainstay.runtime.requests import Requests
from mainstay.runtime.restart import RestartStrategy
from mainstay.runtime.slowness import Silent
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import AttemptRecord, Failure, Problem, Status
from mainstay.runtime.worker import Deployment
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.history import Begin, Ended, EpochCommitted, History
from mainstay.snapshot.manifest import FileRef, Manifest
from mainstay.snapshot.retention import Retention, orphans, stored
from mainstay.state.keygroups import HASH_ID

MOST_ATTEMPTS = 1000
"""How many attempts a leader remembers, beside its first."""

MOST_NEWS = 64
"""How many failures wait to be told of, where nobody does."""

_SHOWN_AS_IT_IS = (UserFunctionError, JobFailedError, RestoreError, FencedError, SourceError)
"""Errors that say enough by themselves; others are given the job's name."""


MOST_REASON = 2000
"""How much of an error the log holds."""


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
        self.report: tuple[str, ...] = ()
        """What is to be said of a job that had finished and has nothing new to read."""
        self.failures: deque[Failure] = deque(maxlen=MOST_NEWS)
        """Failures, that of the job itself included, for the drive to take and tell of."""
        self.setback: Failure | None = None
        """The last failure, until an epoch is complete again."""
        self.troubles: deque[str] = deque(maxlen=MOST_NEWS)
        """What functions raised when they were closed, after everything else was done; likewise."""
        self._job = job
        self._options = options
        self._ports = ports
        self._cluster = cluster
        self._leader = tokens()
        self._claims = Claims(ports, options.snapshots, tokens, self._lost)
        self._farewell = Farewell(self._claims, ports.clock)
        self._owns_log = False
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
        self._farewell.tick(now)

    def _restart_is_due(self, now: float) -> bool:
        # A claim under way may add an epoch to the log: where to restart is not known before.
        return self._restart_at is not None and now >= self._restart_at and not self._claims.is_busy

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do, if nothing is reported before."""
        times = [self._claims.deadline(), self._attempt.deadline() if self._attempt else None]
        times.append(self._farewell.deadline())
        if not self._claims.is_busy:
            times.append(self._restart_at)
        return min((time for time in times if time is not None), default=None)

    @property
    def is_done(self) -> bool:
        """Whether the job is over and there is nothing left to say about it."""
        return self.status.is_final and not self._farewell.is_under_way

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

    def silent(self) -> list[Silent]:
        """The operators of the current attempt that emitted nothing for the rows they took."""
        return self._attempt.silent() if self._attempt is not None else []

    @property
    def last_epoch(self) -> int | None:
        """The epoch that the job would go on from; None where there is none."""
        lineage = reversed(self._claims.history.lineage_epochs())
        return next((each.epoch for each in lineage if each.epoch not in self._damaged), None)

    def cancel(self) -> None:
        """End the job without finishing it. The last complete epoch can be restored."""
        self._hurry()
        if not self.status.is_final:
            self._stop("cancelled")
            self._end(Status.CANCELLED)

    def fail(self, error: Exception) -> None:
        """End the job on account of something outside its attempts."""
        self._hurry()
        if not self.status.is_final:
            self._stop(str(error))
            self._fail_job(error, "it is outside what an attempt could mend")

    def _hurry(self) -> None:
        """What has come to its end but for the closing of functions has come to its end."""
        if self._attempt is not None:
            self._attempt.hurry()

    def _stop(self, reason: str) -> None:
        if self._attempt is not None and not self._attempt.is_over:
            self._attempt.send_all(Release(self._attempt.number, in_good_order=False))
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
        self._try_again(error)

    def _on_loaded(self, loaded: Loaded) -> None:
        if self.status.is_final:
            return
        begun = loaded.history.last_begin
        if self.attempts and begun is None:
            # Starting from nothing would count everything again: a disk may just be unmounted.
            self._owns_log = False
            self._fail_job(
                RestoreError(
                    f"the history of job {self._options.name!r} has vanished from the snapshot "
                    'directory. Bring the directory back and start with restore="latest".'
                )
            )
        elif self.attempts and begun is not None and begun.leader != self._leader:
            # Restarting now would take the job away from the leader that replaced this one.
            self._fenced(loaded.history.next_slot - 1)
        elif begun is not None and begun.job != self._options.name:
            self._fail_job(_other_job(begun.job, self._options.name))
        elif loaded.damage is not None:
            self._skip_damaged(loaded)
        elif loaded.is_finished and not self.attempts:
            self._look_for_news(loaded)
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

    def _look_for_news(self, loaded: Loaded) -> None:
        """The job had finished: it goes on if there is new input, and says so if there is none."""
        manifest = loaded.manifest
        assert manifest is not None
        try:
            self._restore_plan(manifest, None)
        except (RestoreError, GraphError) as error:
            self._fail_job(error)
            return
        storage, job = self._ports.storage, self._job

        def done(news: News) -> None:
            if self.status.is_final:
                return
            if news.sources:
                # Every sink has confirmed the end of a finished job: nothing is left to commit.
                self._begin(loaded.history, without_handles(manifest), None)
                return
            self.report = news.report
            self._epochs.known(news.epochs)
            self._end(Status.FINISHED)

        def failed(error: Exception) -> None:
            if isinstance(error, DamagedFileError) and not self.status.is_final:
                self._skip_damaged(replace(loaded, damage=error))
            else:
                self._on_load_failed(error)

        self._ports.background.submit(lambda: look_for_news(storage, job, manifest), done, failed)

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
        self._owns_log = True
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
            plan_again=not self._has_planned(begin, manifest),
        )
        self.status = Status.LAUNCHING
        is_held = self._requests.begun(self._attempt, manifest)
        self._sweep(number)
        self._cluster.launch(
            Deployment(self._job, number, begin.lineage, plan.states, options.tuning, is_held)
        )

    def _has_planned(self, begin: Begin, manifest: Manifest | None) -> bool:
        """Whether the bounded sources in a manifest are planned for this start of the job.

        Their input is what they have when the job is started: what an attempt of this leader has
        planned is not planned again, what an earlier start has planned is.
        """
        if manifest is None or begin.origin is not None:
            return False
        return manifest.attempt >= self.attempts[0].attempt

    def _sweep(self, attempt: Attempt) -> None:
        """Delete what older attempts left behind and no kept epoch reaches."""
        storage, retain = self._ports.storage, self._options.snapshots.retain
        lineage = [record.manifest for record in self._claims.history.lineage_epochs()]
        pinned = self._requests.savepoints.pinned()

        def work() -> list[tuple[FileRef, Manifest]]:
            # Where an older epoch was restored, those before it may have been retired long ago.
            places = stored(storage, lineage)[-retain:]
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
        self.setback = None
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
        falls_back = isinstance(error, DamagedFileError) and self._may_fall_back()
        self._try_again(error, may_heal=falls_back or None)

    def _may_fall_back(self) -> bool:
        restored_from = self.attempts[-1].restored_from
        if not self._options.restore.fall_back or restored_from is None:
            return False
        self._damaged.add(restored_from)
        return True

    def not_closed(self, worker: int, trouble: str) -> None:
        self.troubles.append(f"worker {worker} could not close its functions: {trouble}")

    def finished(self) -> None:
        self._close_attempt("")
        self._end(Status.FINISHED)

    def halted(self) -> None:
        assert self._attempt is not None
        if self.status.is_final:
            return
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

    def _try_again(self, error: Exception, may_heal: bool | None = None) -> None:
        """Whether and when there is another attempt is up to the error and the restart strategy."""
        if self.status.is_final:
            return
        if not (self._may_heal(error) if may_heal is None else may_heal):
            self._fail_job(error, "no restart heals this")
            return
        now = self._ports.clock.monotonic()
        wait = self._strategy.on_failure(now)
        if wait is None:
            self._fail_job(error, self._strategy.why_not_again)
            return
        self.status = Status.RESTARTING
        self._restart_at = now + wait
        following = self._claims.history.next_attempt
        self.setback = Failure(
            self._last_attempt, error, now, self._restart_at, following, self.last_epoch
        )
        self.failures.append(self.setback)

    def _may_heal(self, error: Exception) -> bool:
        if not isinstance(error, MainstayError):
            return True
        is_first = len(self.attempts) == 1 and self.last_epoch is None
        return not (error.is_final or (is_first and error.is_final_at_start))

    @property
    def _last_attempt(self) -> int | None:
        return self.attempts[-1].attempt if self.attempts else None

    def _lost(self, slot: int) -> None:
        """Someone else took the slot. Before this leader has begun, it looks again and tries."""
        self._owns_log = False
        self._farewell.over()
        if self.attempts:
            self._fenced(slot)
        elif not self.status.is_final:
            self.start()

    def _fenced(self, slot: int) -> None:
        self._owns_log = False
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

    def _fail_job(self, error: Exception, why: str = "no restart heals this") -> None:
        if self.status.is_final:
            return
        now = self._ports.clock.monotonic()
        self.failures.append(Failure(self._last_attempt, error, now, why_last=why))
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
        self.setback = None
        self.status = status
        if self._owns_log and status is not Status.FINISHED:
            reason = "" if self.error is None else str(self.error)[:MOST_REASON]
            attempt, at = self.attempts[-1].attempt, self._ports.clock.wall()
            self._farewell.say(Ended(status.value, attempt, at, reason))
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


def _other_job(found: str, asked: str) -> RestoreError:
    return RestoreError(
        f"the snapshot directory holds the history of job {found!r}, and this job is {asked!r}. "
        f"Go on with it under its name, start({found!r}); or give this job a directory of its own, "
        "and start it from the other's state with restore= and the path of this directory."
    )
