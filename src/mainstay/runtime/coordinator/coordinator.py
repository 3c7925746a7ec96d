"""The coordinator: runs a job over any number of attempts.

It is driven by three things: messages of workers, the end of background work, and that time has
passed (``tick``). The commit log decides: a coordinator that loses a slot has been replaced.

::

    STARTING ── log read, begin won ──▶ LAUNCHING ── all workers ready ──▶ RUNNING
        ▲                                   │                                 │
        └──── RESTARTING (a wait) ◀─────────┴──── a worker failed, rescaled ◀─┤
                                                                              ▼
                FAILED / CANCELLED                  final epoch committed: FINISHED
                                                    halted on request: STOPPED

What it starts from is found out in ``starting``, epochs are taken in ``attempt``, requests of users
are kept in ``requests``, and what people may want to know of it all is in ``chronicle``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mainstay.errors import FencedError, JobFailedError
from mainstay.runtime.coordinator.attempt import RunningAttempt
from mainstay.runtime.coordinator.chronicle import Chronicle
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.closing import Ending, How
from mainstay.runtime.coordinator.cluster import Cluster
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.farewell import Farewell
from mainstay.runtime.coordinator.housekeeping import Housekeeping
from mainstay.runtime.coordinator.requests import Requests
from mainstay.runtime.coordinator.restart import (
    RestartStrategy,
    error_of_job,
    is_healed_by_restart,
)
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.coordinator.starting import (
    Decision,
    NothingNew,
    Refused,
    Replaced,
    Start,
    Starting,
    Unreadable,
)
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, Epoch, Release, TaskMetrics, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import RESCALED, Problem, Status
from mainstay.snapshot.history import Begin, Ended
from mainstay.snapshot.manifest import FileRef, Manifest

MOST_REASON = 2000
"""How much of an error the log holds."""


class Coordinator:
    """Runs one job as one leader, for one term.

    ``succeeds``: another leader may have run the job before, so that where there is a history the
    job goes on from its latest epoch, whatever the user asked for at its start.
    """

    def __init__(
        self,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        cluster: Cluster,
        tokens: Callable[[], str],
        *,
        succeeds: bool = False,
    ) -> None:
        self.status = Status.STARTING
        self.error: Exception | None = None
        self.is_replaced = False
        """Whether the job has ended for this leader because another one has it."""
        self.chronicle = Chronicle(ports)
        self.attempts = self.chronicle.attempts
        self.records = self.chronicle.epochs.records
        self._job = job
        self._options = options
        self._ports = ports
        self._cluster = cluster
        self._leader = tokens()
        self._claims = Claims(ports, options.snapshots, tokens, self._lost)
        self._farewell = Farewell(self._claims, ports.clock)
        self._owns_log = False
        self._strategy = RestartStrategy(options.restart)
        self._housekeeping = Housekeeping(ports, options.snapshots.retain)
        self._starting = Starting(ports, self._on_decision, succeeds=succeeds)
        self._attempt: RunningAttempt | None = None
        self._restart_at: float | None = None
        self._ended_how = ""
        self._requests = Requests(ports, options.name)
        self.savepoint = self._requests.savepoint
        self.stop = self._requests.stop
        self.rescale = self._requests.rescale

    # ------------------------------------------------------------ events

    def start(self) -> None:
        """Find out what to start from, and begin an attempt."""
        self._starting.look(self._job, self._options, self._leader if self.attempts else None)

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
            self.start()
        self._requests.tick(self._claims)
        if self._attempt is not None:
            self._attempt.tick(now, self._requests.savepoints.wishes())
        self._farewell.tick(now)

    def _restart_is_due(self, now: float) -> bool:
        # A claim under way may add an epoch to the log: where to restart is not known before.
        return self._restart_at is not None and now >= self._restart_at and self._claims.is_settled

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do, if nothing is reported before."""
        times = [self._claims.deadline(), self._farewell.deadline()]
        if self._attempt is not None:
            times.append(self._attempt.deadline(self._requests.savepoints.wishes()))
        if self._claims.is_settled:
            times.append(self._restart_at)
        return min((time for time in times if time is not None), default=None)

    def cancel(self) -> None:
        """End the job without finishing it. The last complete epoch can be restored."""
        if self._stop("cancelled"):
            self._end(Status.CANCELLED)

    def fail(self, error: Exception) -> None:
        """End the job on account of something outside its attempts."""
        if self._stop(str(error)):
            self._fail_job(error, "it is outside what an attempt could mend")

    def depose(self) -> None:
        """This process does not lead any more: end its part in the job, and leave the log alone."""
        if self._stop("this process does not lead any more"):
            self._ended_how = "this process does not lead the job any more"
            name = self._options.name
            self._replaced(f"this process does not lead job {name!r} any more, and has stopped it")

    def _stop(self, reason: str) -> bool:
        """End the workers; False if the job was over, but for the closing of functions at most."""
        if self._attempt is not None:
            self._attempt.hurry()
        if self.status.is_final:
            return False
        if self._attempt is not None and not self._attempt.is_over:
            self._attempt.send_all(Release(self._attempt.number, in_good_order=False))
            self._attempt.end(reason)
            self._cluster.end(self._attempt.number)
        self.chronicle.attempt_ended(reason)
        return True

    # ------------------------------------------------------------ what it is asked

    @property
    def is_done(self) -> bool:
        """Whether the job is over and there is nothing left to say about it."""
        return self.status.is_final and not self._farewell.is_under_way

    @property
    def is_halting(self) -> bool:
        """Whether a stop or a rescale is under way."""
        return self._requests.is_halting

    @property
    def last_epoch(self) -> int | None:
        """The epoch that the job would go on from; None where there is none."""
        return self._starting.last_epoch(self._claims.history)

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask of the current attempt last reported."""
        return self._attempt.metrics if self._attempt is not None else {}

    def problems(self) -> list[Problem]:
        """What the job waits for just now, and goes on by itself once that is over."""
        if self._attempt is None:
            return []
        return self._attempt.problems(self._ports.clock.monotonic())

    def silent(self) -> list[Silent]:
        """The operators of the current attempt that emitted nothing for the rows they took."""
        return self._attempt.silent() if self._attempt is not None else []

    # ------------------------------------------------------------ beginning an attempt

    def _on_decision(self, decision: Decision) -> None:
        if self.status.is_final:
            return
        match decision:
            case Start():
                self._begin(decision)
            case NothingNew(news):
                self.chronicle.had_finished(news.report, news.epochs)
                self._end(Status.FINISHED)
            case Refused(error, has_vanished):
                self._owns_log = self._owns_log and not has_vanished
                self._fail_job(error)
            case Unreadable(error):
                self._try_again(error)
            case Replaced(slot):
                self._fenced(slot)

    def _begin(self, start: Start) -> None:
        self._claims.history = start.history
        used = self._attempt.book.next_epoch if self._attempt is not None else 1
        wall = self._ports.clock.wall()
        begin = start.begin(self._leader, self._job, self._options, used, wall)
        self._claims.claim(begin, lambda: self._begun(begin, start), self._try_again)

    def _begun(self, begin: Begin, start: Start) -> None:
        """The slot is won: this leader owns the job, and this attempt is the current one."""
        self._owns_log = True
        if self.status.is_final:
            return
        number, plan = Attempt(begin.attempt), start.plan
        self.chronicle.begun(number, begin.restored_from, plan.report)
        options = replace(self._options, lineage=begin.lineage)
        self._attempt = RunningAttempt(
            number,
            Epoch(begin.next_epoch),
            self._job,
            options,
            self._ports,
            self._claims,
            start.manifest,
            self,
            plan_again=not start.is_planned_since(self.attempts[0].attempt),
        )
        self.status = Status.LAUNCHING
        is_held = self._requests.begun(self._attempt, start.manifest)
        pinned = self._requests.savepoints.pinned()
        self._housekeeping.sweep(number, self._claims.history, pinned)
        self._cluster.launch(
            Deployment(self._job, number, begin.lineage, plan.states, options.tuning, is_held)
        )

    # ------------------------------------------------------------ what an attempt tells

    def running(self) -> None:
        self.status = Status.RUNNING
        self._requests.running()

    def recorded(self, records: list[EpochRecord]) -> None:
        self.chronicle.epochs.add(records)

    def committed(self, place: FileRef, manifest: Manifest, *, is_last: bool) -> None:
        assert self._attempt is not None
        # Asked after failures alone: positions have to be unpacked for it.
        if self._strategy.has_failed and self._attempt.has_progressed(manifest):
            self._strategy.on_progress()
        self.chronicle.setback = None
        self._requests.committed(manifest, self._job, is_last=is_last)
        pinned = self._requests.savepoints.pinned()
        self._housekeeping.committed(place, manifest, self._attempt.book.pending_files(), pinned)

    def saved_epoch(self) -> Epoch | None:
        return self._requests.savepoints.saved_epoch()

    def ended(self, ending: Ending) -> None:
        self.chronicle.troubles.extend(ending.troubles)
        match ending:
            case Ending(How.FINISHED):
                self.chronicle.attempt_ended("")
                self._end(Status.FINISHED)
            case Ending(How.HALTED):
                self._halted()
            case Ending(How.FAILED, Exception() as error):
                self._attempt_failed(error)

    def _attempt_failed(self, error: Exception) -> None:
        assert self._attempt is not None
        self._cluster.end(self._attempt.number)
        self.chronicle.attempt_ended(str(error))
        falls_back = self._starting.falls_back(error, self.attempts[-1].restored_from)
        self._try_again(error, may_heal=falls_back or None)

    def _halted(self) -> None:
        assert self._attempt is not None
        if self.status.is_final:
            return
        job = self._requests.halted()
        self.chronicle.halted(self.last_epoch)
        if job is None:
            self.chronicle.attempt_ended("stopped")
            self._end(Status.STOPPED)
            return
        self._job = job
        self._cluster.end(self._attempt.number)
        self.chronicle.attempt_ended(RESCALED)
        self.status = Status.RESTARTING
        self.start()

    # ------------------------------------------------------------ ends

    def _try_again(self, error: Exception, may_heal: bool | None = None) -> None:
        """Whether and when there is another attempt is up to the error and the restart strategy."""
        if self.status.is_final:
            return
        if may_heal is None:
            is_first = len(self.attempts) == 1 and self.last_epoch is None
            may_heal = is_healed_by_restart(error, is_first=is_first)
        if not may_heal:
            self._fail_job(error)
            return
        now = self._ports.clock.monotonic()
        wait = self._strategy.on_failure(now, error)
        if wait is None:
            self._fail_job(error, self._strategy.why_not_again)
            return
        self.status = Status.RESTARTING
        self._restart_at = now + wait
        following = self._claims.history.next_attempt
        self.chronicle.will_try_again(error, self._restart_at, following, self.last_epoch)

    def _lost(self, slot: int) -> None:
        """Someone else took the slot. Before this leader has begun, it looks again and tries."""
        self._owns_log = False
        self._farewell.over()
        if self.attempts:
            self._fenced(slot)
        elif not self.status.is_final:
            self.start()

    def _fenced(self, slot: int) -> None:
        reason = "another leader took over"
        if self._attempt is not None and not self._attempt.is_over:
            self._attempt.end(reason)
            self._cluster.end(self._attempt.number)
        self.chronicle.attempt_ended(reason)
        self._replaced(
            f"another driver has taken over job {self._options.name!r} (slot {slot} of the commit "
            "log is its), so this one stops. Run one driver for each snapshot directory."
        )

    def _replaced(self, what: str) -> None:
        self._owns_log = False
        self.is_replaced = self.is_replaced or not self.status.is_final
        self._fail_job(FencedError(what))

    def _fail_job(self, error: Exception, why: str = "no restart heals this") -> None:
        if self.status.is_final:
            return
        self.chronicle.has_given_up(error, why)
        self.error = error_of_job(self._options.name, error)
        self._end(Status.FAILED)

    def _end(self, status: Status) -> None:
        if self.status.is_final:
            return
        self._restart_at = None
        self.chronicle.setback = None
        self.status = status
        if self._owns_log and status is not Status.FINISHED:
            reason = "" if self.error is None else str(self.error)[:MOST_REASON]
            attempt, at = self.attempts[-1].attempt, self._ports.clock.wall()
            self._farewell.say(Ended(status.value, attempt, at, reason))
        self.chronicle.epochs.store()
        how = self._ended_how or f"the job is over ({status.value})"
        self._requests.end(how, self.error, is_orderly=status.is_orderly)

    def check_invariants(self) -> None:
        if self._attempt is None:
            return
        self._attempt.check_invariants()
        self._requests.savepoints.check_invariants()
        begin = self._claims.history.last_begin
        assert begin is not None, "an attempt runs without its begin"
        assert begin.attempt >= self._attempt.number, "an attempt runs before its begin"
