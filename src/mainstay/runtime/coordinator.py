"""The coordinator: begins attempts, triggers epochs, commits them, and restarts what failed.

It is a state machine over three things it is told: messages of workers, the end of background
work, and time (``tick``). The commit log decides: an epoch exists when its slot is won, and a
coordinator that loses a slot has been replaced and stops.

::

    STARTING ── history read, begin won ──▶ LAUNCHING ── all workers ready ──▶ RUNNING
        ▲                                       │                                 │
        └────────── wait (restart strategy) ◀───┴──── a worker failed ◀───────────┤
                                                                                  ▼
                    FAILED / CANCELLED                  final epoch committed: FINISHED
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from mainstay.errors import (
    DamagedFileError,
    FencedError,
    GraphError,
    HistoryExistsError,
    JobFailedError,
    OutcomeUnknownError,
    RestoreError,
    SourceError,
    UserFunctionError,
)
from mainstay.runtime.epochs import EpochBook, EpochRecord, PendingEpoch
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    AssignSplits,
    Attempt,
    Committed,
    Decline,
    Ended,
    Epoch,
    EpochComplete,
    Ready,
    Release,
    Trigger,
    WorkerFailed,
)
from mainstay.runtime.options import RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.recovery import RestorePlan, key_type_of, plan_restore, schema_of
from mainstay.runtime.restart import RestartStrategy
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.splits import SplitBook, notes_of
from mainstay.runtime.worker import Deployment
from mainstay.snapshot.checked import read_manifest, reference
from mainstay.snapshot.commitlog import ClaimOutcome, claim_slot, read_history
from mainstay.snapshot.history import Begin, EpochCommitted, Finished, History, Record
from mainstay.snapshot.layout import manifest_path
from mainstay.snapshot.manifest import FileRef, Manifest, OperatorState
from mainstay.snapshot.retention import Retention, orphans
from mainstay.state.keygroups import HASH_ID

ASK_AGAIN_S = 0.2
REPLAN_S = 1.0


class Status(Enum):
    """Where a job stands."""

    STARTING = "starting"
    LAUNCHING = "launching"
    RUNNING = "running"
    RESTARTING = "restarting"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (Status.FINISHED, Status.FAILED, Status.CANCELLED)


class Cluster(Protocol):
    """Starts and ends the workers of an attempt."""

    def launch(self, deployment: Deployment) -> None:
        """Start every worker; each reports ``Ready`` when it can go on."""

    def stop(self, attempt: Attempt) -> None:
        """End the workers of an attempt. Some may live on for a while; fencing covers that."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Everything a coordinator is told about how to run a job."""

    name: str
    lineage: str
    snapshots: SnapshotOptions = field(default_factory=SnapshotOptions)
    restart: RestartOptions = field(default_factory=RestartOptions)
    restore: RestoreOptions = field(default_factory=RestoreOptions)
    tuning: Tuning = field(default_factory=Tuning)


@dataclass(slots=True)
class AttemptRecord:
    """The history of one attempt."""

    attempt: int
    restored_from: int | None
    begun_at: float
    report: tuple[str, ...] = ()
    ended_at: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What was read before an attempt: the log, and the manifest it starts from."""

    history: History
    manifest: Manifest | None


class Coordinator:
    """Runs one job over any number of attempts."""

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
        self.records: list[EpochRecord] = []
        self.attempts: list[AttemptRecord] = []
        self._job = job
        self._options = options
        self._ports = ports
        self._cluster = cluster
        self._token = tokens
        self._leader = tokens()
        self._restart = RestartStrategy(options.restart)
        self._history = History()
        self._attempt = Attempt(0)
        self._book: EpochBook | None = None
        self._retention = Retention(options.snapshots.retain)
        self._subtasks = frozenset((task.id, subtask) for task, subtask in job.subtasks())
        self._sinks = frozenset((t.id, s) for t, s in job.subtasks() if t.has_sink)
        self._restart_at: float | None = None
        self._ask_again: tuple[float, Callable[[], None]] | None = None
        self._is_claiming = False
        self._skip_damaged: set[int] = set()
        self._reset_attempt()

    def _reset_attempt(self) -> None:
        self._ready: set[int] = set()
        self._ended: set[tuple[str, int]] = set()
        self._committed: dict[tuple[str, int], Epoch] = {}
        self._final: Epoch | None = None
        self._splits: dict[str, SplitBook] = {}
        self._planning: set[str] = set()
        self._replan_at: float | None = None

    # ------------------------------------------------------------ starting an attempt

    def start(self) -> None:
        """Read the log and begin the first attempt of this leader."""
        self._load(self._first_epoch_to_restore)

    def _load(self, choose: Callable[[History], EpochCommitted | None]) -> None:
        storage = self._ports.storage

        def work() -> _Loaded:
            history = read_history(storage)
            chosen = choose(history)
            return _Loaded(history, read_manifest(storage, chosen.manifest) if chosen else None)

        self._ports.background.submit(work, self._on_loaded, self._on_load_failed)

    def _first_epoch_to_restore(self, history: History) -> EpochCommitted | None:
        start = self._options.restore.start
        if history.last_begin is None:
            if start in ("new", "latest-or-new"):
                return None
            raise RestoreError(
                f"restore={start!r} was asked for, but the snapshot directory has no history. "
                'Use restore="latest-or-new" to start fresh where there is none.'
            )
        if start == "new":
            raise HistoryExistsError(
                f"the snapshot directory holds the history of job {history.last_begin.job!r} "
                f"({len(history.lineage_epochs())} epochs). Go on from it with "
                'restore="latest", or choose another directory.'
            )
        if isinstance(start, int):
            chosen = history.epoch(start)
            if chosen is None:
                known = [record.epoch for record in history.lineage_epochs()]
                raise RestoreError(f"there is no epoch {start}; the history has {known}.")
            return chosen
        return self._latest(history)

    def _latest(self, history: History) -> EpochCommitted | None:
        """The latest epoch that is not known to be damaged."""
        for record in reversed(history.lineage_epochs()):
            if record.epoch not in self._skip_damaged:
                return record
        if self._skip_damaged:
            raise RestoreError("no epoch is left that is not damaged.")
        return None

    def _on_load_failed(self, error: Exception) -> None:
        if self.status.is_final:
            return
        if isinstance(error, DamagedFileError) and self._options.restore.fall_back:
            self._skip_newest_readable()
            return
        if isinstance(error, RestoreError):
            self._fail_job(error)
        else:
            self._attempt_failed(error)

    def _skip_newest_readable(self) -> None:
        """Fall back past the manifest that could not be read, and load again."""
        storage = self._ports.storage

        def done(history: History) -> None:
            chosen = self._latest(history)
            if chosen is not None:
                self._skip_damaged.add(chosen.epoch)
            self._load(self._latest)

        self._ports.background.submit(lambda: read_history(storage), done, self._on_load_failed)

    def _on_loaded(self, loaded: _Loaded) -> None:
        if self.status.is_final:
            return
        self._history = loaded.history
        begun = loaded.history.last_begin
        if self.attempts and begun is not None and begun.leader != self._leader:
            # Restarting now would take the job away from the leader that replaced this one.
            self._fenced(loaded.history.next_slot - 1)
            return
        if loaded.history.finished and not self.attempts:
            self._end(Status.FINISHED)
            return
        try:
            plan = self._plan(loaded.manifest)
        except (RestoreError, GraphError) as error:
            self._fail_job(error)
            return
        restored_from = loaded.manifest.epoch if loaded.manifest else None
        begin = Begin(
            attempt=loaded.history.next_attempt,
            leader=self._leader,
            restored_from=restored_from,
            lineage=self._options.lineage,
            job=self._options.name,
            max_parallelism=self._job.max_parallelism,
            hash_id=HASH_ID,
            next_epoch=max(loaded.history.next_epoch, self._book.next_epoch if self._book else 1),
        )
        self._claim(begin, lambda: self._begun(begin, plan, loaded.manifest), self._attempt_failed)

    def _plan(self, manifest: Manifest | None) -> RestorePlan:
        if manifest is None:
            return RestorePlan({}, ())
        return plan_restore(manifest, self._job, self._options.restore.allow_dropped)

    def _begun(self, begin: Begin, plan: RestorePlan, manifest: Manifest | None) -> None:
        """The slot is won: this leader owns the job, and this attempt is the current one."""
        clock = self._ports.clock
        self._attempt = Attempt(begin.attempt)
        self._reset_attempt()
        self._splits = self._split_books(manifest)
        self._book = EpochBook(
            begin.attempt,
            self._subtasks,
            self._options.snapshots,
            Epoch(begin.next_epoch),
            clock.monotonic(),
        )
        record = AttemptRecord(begin.attempt, begin.restored_from, clock.wall(), plan.report)
        self.attempts.append(record)
        if self.status.is_final:
            return
        self.status = Status.LAUNCHING
        self._sweep()
        self._cluster.launch(
            Deployment(
                self._job,
                self._attempt,
                self._options.lineage,
                plan.states,
                self._options.tuning,
            )
        )

    def _split_books(self, manifest: Manifest | None) -> dict[str, SplitBook]:
        notes = manifest.sources if manifest else {}
        return {
            operator.uid: SplitBook(
                operator.uid,
                task.parallelism,
                bounded=operator.source.bounded,
                notes=notes.get(operator.uid),
            )
            for task, operator in self._job.operators()
            if operator.source is not None
        }

    def _sweep(self) -> None:
        """Delete what older attempts left behind and no kept epoch reaches."""
        storage, attempt = self._ports.storage, self._attempt
        places = [r.manifest for r in self._history.lineage_epochs()]
        places = places[-self._options.snapshots.retain :]

        def work() -> list[tuple[FileRef, Manifest]]:
            kept = [(place, read_manifest(storage, place)) for place in places]
            for path in orphans(storage, kept, attempt):
                storage.delete(path)
            return kept

        def done(kept: list[tuple[FileRef, Manifest]]) -> None:
            if attempt != self._attempt:
                return
            fresh = Retention(self._options.snapshots.retain)
            for place, manifest in kept:
                fresh.completed(place, manifest)
            self._retention = fresh

        # A sweep that fails has deleted nothing that is needed; the next attempt sweeps again.
        self._ports.background.submit(work, done, lambda _: None)

    # ------------------------------------------------------------ the commit log

    def _claim(
        self, record: Record, won: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Try for the next slot; there is one claim under way at a time."""
        self._is_claiming = True
        slot, token = self._history.next_slot, self._token()
        storage = self._ports.storage

        def attempt() -> None:
            self._ports.background.submit(
                lambda: claim_slot(storage, slot, record, token), done, undecided
            )

        def done(outcome: ClaimOutcome) -> None:
            self._is_claiming = False
            if outcome is ClaimOutcome.LOST:
                self._fenced(slot)
                return
            self._history = self._history.with_record(record)
            won()

        def undecided(error: Exception) -> None:
            if isinstance(error, OutcomeUnknownError):
                # It may be in the log: nothing may be decided before that is known.
                self._ask_again = (self._ports.clock.monotonic() + ASK_AGAIN_S, attempt)
                return
            self._is_claiming = False
            failed(error)

        attempt()

    def _fenced(self, slot: int) -> None:
        error = FencedError(
            f"slot {slot} of the commit log was taken by another leader of job "
            f"{self._options.name!r}; this one stops. Run one driver per job, or use high "
            "availability for standbys."
        )
        self._cluster.stop(self._attempt)
        self._fail_job(error)

    # ------------------------------------------------------------ messages

    def receive(self, message: Any) -> None:
        """Take a message of a worker; those of other attempts are refused."""
        if not self._is_current(message) or self.status.is_final:
            return
        match message:
            case Ready(_, worker):
                self._on_ready(worker)
            case Acknowledge():
                self._on_acknowledge(message)
            case Decline(_, epoch, task, subtask, reason):
                self._abort(epoch, f"{task}[{subtask}]: {reason}")
            case Ended(_, task, subtask):
                self._ended.add((task, subtask))
            case Committed(_, epoch, task, subtask):
                self._committed[(task, subtask)] = epoch
            case WorkerFailed(_, _, error):
                self._attempt_failed(error)
        self.tick()

    def _is_current(self, message: Any) -> bool:
        """Fencing: nothing that an older attempt says is believed."""
        running = self.status in (Status.LAUNCHING, Status.RUNNING)
        return running and message.attempt == self._attempt

    def worker_lost(self, attempt: Attempt, worker: int, reason: str) -> None:
        """The drive has seen a worker end without a word."""
        error = JobFailedError(f"worker {worker} of attempt {attempt} was lost: {reason}")
        self.receive(WorkerFailed(attempt, worker, error))

    def _send_all(self, message: Any) -> None:
        for worker in range(self._job.workers):
            self._ports.send(worker, message)

    def _on_ready(self, worker: int) -> None:
        self._ready.add(worker)
        if len(self._ready) == self._job.workers:
            self.status = Status.RUNNING
            for book in self._splits.values():
                if book.is_complete:
                    self._assign(book, [() for _ in range(self._parallelism(book.uid))])
                else:
                    self._plan_splits(book)

    # ------------------------------------------------------------ sources

    def _parallelism(self, uid: str) -> int:
        return next(t.parallelism for t, operator in self._job.operators() if operator.uid == uid)

    def _plan_splits(self, book: SplitBook) -> None:
        if book.uid in self._planning:
            return
        self._planning.add(book.uid)
        source = next(o.source for _, o in self._job.operators() if o.uid == book.uid)
        assert source is not None
        attempt, seen = self._attempt, book.seen

        def done(planned: list[Any]) -> None:
            if attempt != self._attempt or self.status is not Status.RUNNING:
                return
            self._planning.discard(book.uid)
            self._assign(book, book.assign(planned))
            if not book.bounded:
                self._replan_at = self._ports.clock.monotonic() + REPLAN_S

        def failed(error: Exception) -> None:
            if attempt == self._attempt:
                self._attempt_failed(SourceError(f"source {book.uid!r} cannot be planned: {error}"))

        self._ports.background.submit(lambda: list(source.plan(seen)), done, failed)

    def _assign(self, book: SplitBook, shares: list[tuple[Any, ...]]) -> None:
        for subtask, splits in enumerate(shares):
            if splits or book.is_complete:
                self._ports.send(
                    subtask,
                    AssignSplits(self._attempt, book.uid, subtask, splits, book.is_complete),
                )

    # ------------------------------------------------------------ epochs

    def tick(self) -> None:
        """Do what time has made due. Called often; cheap when nothing is."""
        now = self._ports.clock.monotonic()
        if self._ask_again is not None and now >= self._ask_again[0]:
            again, self._ask_again = self._ask_again[1], None
            again()
        if self._restart_at is not None and now >= self._restart_at and not self._is_claiming:
            self._restart_at = None
            self._load(self._latest)
        if self.status is Status.RUNNING:
            self._tick_running(now)

    def _tick_running(self, now: float) -> None:
        assert self._book is not None
        for epoch in self._book.expired(now):
            self._abort(epoch, f"not complete after {self._options.snapshots.timeout_s} s")
        if self.status is not Status.RUNNING:
            return
        if self._replan_at is not None and now >= self._replan_at:
            self._replan_at = None
            for book in self._splits.values():
                if not book.bounded:
                    self._plan_splits(book)
        if self._final is None:
            self._trigger_if_due(now)
        else:
            self._finish_if_committed()

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do, if no message arrives."""
        times = [self._restart_at if not self._is_claiming else None, self._replan_at]
        times.append(self._ask_again[0] if self._ask_again else None)
        if self.status is Status.RUNNING and self._book is not None:
            times.append(self._book.next_timeout())
            if self._final is None:
                times.append(self._book.next_trigger())
        return min((time for time in times if time is not None), default=None)

    def _trigger_if_due(self, now: float) -> None:
        assert self._book is not None
        due = self._book.next_trigger()
        is_final = self._ended == self._subtasks
        if due is None or (now < due and not is_final):
            return
        if any(pending.is_final for pending in self._book.pending.values()):
            return
        pending = self._book.begin(
            now, self._ports.clock.wall(), notes_of(self._splits), is_final=is_final
        )
        self._send_all(Trigger(self._attempt, pending.epoch))

    def _on_acknowledge(self, message: Acknowledge) -> None:
        assert self._book is not None
        pending = self._book.acknowledge(message)
        if pending is not None:
            pending.is_committing = True
            self._commit_next()

    def _commit_next(self) -> None:
        """Commit the oldest epoch that is whole, if no other claim is under way."""
        assert self._book is not None
        whole = [p for p in self._book.pending.values() if p.is_committing]
        if whole and not self._is_claiming:
            self._commit(min(whole, key=lambda pending: pending.epoch))

    def _commit(self, pending: PendingEpoch) -> None:
        """The manifest must be durable before the slot that names it is tried for."""
        manifest = self._manifest(pending)
        data = manifest.to_bytes()
        place = reference(manifest_path(pending.epoch, self._attempt), data)
        record = EpochCommitted(pending.epoch, self._attempt, place)
        storage, attempt = self._ports.storage, self._attempt
        self._is_claiming = True

        def written(_: Any) -> None:
            self._is_claiming = False
            if attempt == self._attempt and pending.epoch in self._pending_epochs():
                self._claim(record, lambda: self._committed_epoch(pending, place, manifest), failed)

        def failed(error: Exception) -> None:
            self._is_claiming = False
            if attempt == self._attempt:
                self._abort(pending.epoch, f"the manifest could not be stored: {error}")
                self._commit_next()

        self._ports.background.submit(lambda: storage.write(place.path, data), written, failed)

    def _pending_epochs(self) -> dict[Epoch, PendingEpoch]:
        running = self.status is Status.RUNNING and self._book is not None
        return self._book.pending if running and self._book is not None else {}

    def _committed_epoch(self, pending: PendingEpoch, place: FileRef, manifest: Manifest) -> None:
        """The slot is won. If the attempt has failed meanwhile the epoch counts all the same."""
        assert self._book is not None
        record, subsumed = self._book.complete(pending.epoch, self._ports.clock.monotonic())
        self.records.extend([*subsumed, record])
        self._restart.on_progress()
        self._retire(place, manifest)
        if self.status is not Status.RUNNING:
            return
        for older in subsumed:
            self._send_all(AbortEpoch(self._attempt, older.epoch))
        self._send_all(EpochComplete(self._attempt, pending.epoch))
        if pending.is_final:
            self._final = pending.epoch
        self._commit_next()

    def _retire(self, place: FileRef, manifest: Manifest) -> None:
        assert self._book is not None
        pending = [
            segment.file.path
            for epoch in self._book.pending.values()
            for states in epoch.states.values()
            for state in states.values()
            for segment in state.chain
        ]
        paths = self._retention.completed(place, manifest, pending)
        storage = self._ports.storage

        def work() -> None:
            for path in paths:
                storage.delete(path)

        if paths:
            # What could not be deleted is swept up by the next attempt.
            self._ports.background.submit(work, lambda _: None, lambda _: None)

    def _manifest(self, pending: PendingEpoch) -> Manifest:
        operators = {}
        for task, operator in self._job.operators():
            subtasks = tuple(
                pending.states[(task.id, subtask)][operator.uid]
                for subtask in range(task.parallelism)
            )
            operators[operator.uid] = OperatorState(
                operator.uid,
                task.parallelism,
                key_type_of(operator),
                tuple(schema_of(info) for info in operator.states),
                subtasks,
            )
        return Manifest(
            job=self._options.name,
            lineage=self._options.lineage,
            epoch=pending.epoch,
            attempt=self._attempt,
            mode=self._job.mode,
            max_parallelism=self._job.max_parallelism,
            hash_id=HASH_ID,
            created_at=pending.triggered_at,
            operators=operators,
            sources=pending.sources,
        )

    def _abort(self, epoch: Epoch, reason: str) -> None:
        """Give an epoch up. The job goes on, unless too many failed in a row."""
        if self._book is None or epoch not in self._book.pending:
            return
        self.records.append(self._book.fail(epoch, self._ports.clock.monotonic(), reason))
        self._send_all(AbortEpoch(self._attempt, epoch))
        if self._book.has_failed_too_often:
            count = self._book.failures_in_a_row
            self._attempt_failed(
                JobFailedError(
                    f"{count} epochs in a row failed, the last one ({epoch}) because: {reason}"
                )
            )

    # ------------------------------------------------------------ ending

    def _finish_if_committed(self) -> None:
        """Every sink has confirmed the final epoch: say so in the log, then let go."""
        final = self._final
        assert final is not None
        if self._is_claiming or any(self._committed.get(sink, 0) < final for sink in self._sinks):
            return
        attempt = self._attempt

        def won() -> None:
            self._send_all(Release(attempt))
            self._end(Status.FINISHED)

        self._claim(Finished(final, attempt), won, self._attempt_failed)

    def _attempt_failed(self, error: Exception) -> None:
        """End the attempt as a whole; the restart strategy says what comes next."""
        if self.status.is_final or self._restart_at is not None:
            return
        now = self._ports.clock.monotonic()
        self._cluster.stop(self._attempt)
        self._close_attempt(now, str(error))
        if isinstance(error, DamagedFileError) and not self._fall_back_from_damage():
            self._fail_job(error)
            return
        wait = self._restart.on_failure(now)
        if wait is None:
            self._fail_job(error)
            return
        self.status = Status.RESTARTING
        self._restart_at = now + wait

    def _close_attempt(self, now: float, reason: str) -> None:
        if self._book is not None:
            self.records.extend(self._book.abandon(now, f"the attempt ended: {reason}"))
        if self.attempts and self.attempts[-1].ended_at is None:
            self.attempts[-1].ended_at = self._ports.clock.wall()
            self.attempts[-1].reason = reason

    def _fall_back_from_damage(self) -> bool:
        damaged = self.attempts[-1].restored_from if self.attempts else None
        if not self._options.restore.fall_back or damaged is None:
            return False
        self._skip_damaged.add(damaged)
        return True

    def _fail_job(self, error: Exception) -> None:
        if isinstance(error, UserFunctionError | JobFailedError | RestoreError | FencedError):
            self.error = error
        else:
            failed = JobFailedError(f"job {self._options.name!r} failed: {error}")
            failed.__cause__ = error
            self.error = failed
        self._end(Status.FAILED)

    def cancel(self) -> None:
        """End the job without finishing it. The last complete epoch can be restored."""
        if self.status.is_final:
            return
        self._send_all(Release(self._attempt))
        self._cluster.stop(self._attempt)
        self._close_attempt(self._ports.clock.monotonic(), "cancelled")
        self._end(Status.CANCELLED)

    def _end(self, status: Status) -> None:
        self._restart_at = None
        self.status = status

    def check_invariants(self) -> None:
        committing = [p for p in self._pending_epochs().values() if p.is_committing]
        assert all(not pending.waiting for pending in committing), "committed before it was whole"
        begin = self._history.last_begin
        assert begin is None or begin.attempt >= self._attempt, "an attempt without its begin"
