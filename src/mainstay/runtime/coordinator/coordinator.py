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

What it starts from is found out in ``starting``. An attempt is launched and ended in ``execution``,
and when the next one follows is up to ``restart``. Requests of users are kept in ``requests``, and
what people may want to know of it all is in ``chronicle``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mainstay.errors import FencedError, JobFailedError, words
from mainstay.runtime.coordinator.chronicle import Chronicle
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.coordinator.closing import Ending, How
from mainstay.runtime.coordinator.cluster import Cluster
from mainstay.runtime.coordinator.execution import Execution
from mainstay.runtime.coordinator.farewell import PATIENCE_S, SHARED_PATIENCE_S, Farewell
from mainstay.runtime.coordinator.fitting import Fitting
from mainstay.runtime.coordinator.requests import Requests
from mainstay.runtime.coordinator.restart import (
    NOT_HEALED,
    Restarts,
    error_elsewhere,
    error_of_job,
    is_healed_by_restart,
    is_of_process,
)
from mainstay.runtime.coordinator.starting import (
    Decision,
    NothingNew,
    Over,
    Refused,
    Replaced,
    Start,
    Starting,
    Unreadable,
)
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.messages import Attempt, Epoch, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import RESCALED, Problem, Status
from mainstay.snapshot.history import Begin, Ended, History
from mainstay.snapshot.manifest import FileRef, Manifest

MOST_REASON = 2000
"""How much of an error the log holds."""


class Coordinator:
    """Runs one job as one leader, for one term.

    ``succession`` says what it takes over from leaders before it, whatever the user asked for at
    the start of its process.
    """

    def __init__(
        self,
        job: JobSpec,
        options: JobOptions,
        ports: Ports,
        cluster: Cluster,
        tokens: Callable[[], str],
        succession: Succession | None = None,
    ) -> None:
        self.status = Status.STARTING
        self.error: Exception | None = None
        self.is_replaced = False
        """Whether the job has ended for this leader because another one has it."""
        self._leader = tokens()
        self.chronicle = Chronicle(ports, self._leader)
        self.attempts = self.chronicle.attempts
        self.records = self.chronicle.epochs.records
        self._job = job
        self._options = options
        self._ports = ports
        self._claims = Claims(ports, options.snapshots, tokens, self._lost)
        succession = succession or Succession()
        patience_s = SHARED_PATIENCE_S if succession.is_shared else PATIENCE_S
        self._farewell = Farewell(self._claims, ports.clock, patience_s)
        self._owns_log = False
        self._restarts = Restarts(options.restart, self._claims)
        self._is_shared = succession.is_shared
        self._starting = Starting(ports, self._on_decision, succession)
        self._ended_how = ""
        self.requests = Requests(ports, options.name)
        self.savepoint = self.requests.savepoint
        self.snapshot = self.requests.snapshot
        self.stop = self.requests.stop
        self.rescale = self.requests.rescale
        self.fitting = Fitting(
            job, ports, cluster, self._grow, options.min_parallelism, succession.plan_at
        )
        self.execution = Execution(
            options, ports, cluster, self._claims, self.chronicle, self.requests
        )

    # ------------------------------------------------------------ events

    def start(self) -> None:
        """Find out with how many workers and from what to start, and begin an attempt."""
        self.fitting.fit(self._look)

    def _look(self, job: JobSpec) -> None:
        if not self.status.is_final:
            self._starting.look(job, self._options, self._leader if self.attempts else None)

    def receive(self, message: Any) -> None:
        """Take a message of a worker."""
        if self.execution.attempt is not None:
            self.execution.attempt.receive(message)
        self.tick()

    def workers_lost(self, attempt: Attempt, reason: str, worker: int | None = None) -> None:
        """The drive has seen a worker end without a word, or some, and cannot tell which first."""
        who = "" if worker is None else f"worker {worker} of "
        error = JobFailedError(f"{who}attempt {attempt} was lost: {reason}")
        self.receive(WorkerFailed(attempt, -1 if worker is None else worker, error))

    def tick(self) -> None:
        """Do what time has made due. Called often; cheap when nothing is."""
        now = self._ports.clock.monotonic()
        self._claims.tick(now)
        if self._restarts.take_due(now):
            self.start()
        self.fitting.tick(now, self.status)
        self.requests.tick(self._claims)
        self.execution.tick(now)
        self._farewell.tick(now)

    def deadline(self) -> float | None:
        """When ``tick`` will next have something to do, if nothing is reported before."""
        parts = (self._claims, self._farewell, self.execution, self._restarts, self.fitting)
        times = [part.deadline() for part in parts]
        return min((time for time in times if time is not None), default=None)

    def cancel(self) -> None:
        """End the job without finishing it. The last complete epoch can be restored."""
        if self._stop("cancelled"):
            self._end(Status.CANCELLED)

    def fail(self, error: Exception) -> None:
        """End the job on account of something outside its attempts."""
        if self._stop(words(error)):
            self._fail_job(error, "it is outside what an attempt could mend")

    def depose(self) -> None:
        """This process does not lead any more: end its part in the job, and leave the log alone."""
        if self._stop("this process does not lead any more"):
            self._ended_how = "this process does not lead the job any more"
            name = self._options.name
            self._replaced(f"this process does not lead job {name!r} any more, and has stopped it")

    def hand_over(self) -> None:
        """This process is told to end: end its part in the job, which another may go on with."""
        if self._stop("the driver was told to end"):
            self._ended_how = "this process was told to end"
            if self.attempts:
                self.chronicle.past.handed_over(self.attempts[-1].attempt)
            self._replaced(f"this process was told to end, and leaves job {self._options.name!r}")

    def doubt(self, is_doubted: bool) -> None:
        """While it is not sure that this process leads, claim nothing and commit nothing."""
        self._claims.hold(is_doubted)
        if not is_doubted and self.execution.attempt is not None:
            self.execution.attempt.commit_next()

    def _stop(self, reason: str) -> bool:
        """End the workers; False if the job was over, but for the closing of functions at most."""
        self.execution.hurry()
        if self.status.is_final:
            return False
        self.execution.stop(reason)
        return True

    # ------------------------------------------------------------ what it is asked

    @property
    def job(self) -> JobSpec:
        """The job at the parallelism that it has now."""
        return self._job

    @property
    def _is_left_to_others(self) -> bool:
        """Whether the job has failed on account of this process, and another may go on with it."""
        return self._is_shared and self.error is not None and is_of_process(self.error)

    @property
    def is_done(self) -> bool:
        """Whether the job is over and there is nothing left to say about it."""
        return self.status.is_final and not self._farewell.is_under_way

    def problems(self) -> list[Problem]:
        """What the job waits for just now, and goes on by itself once that is over."""
        room = self.fitting.problems(self._ports.clock.monotonic())
        return [*room, *self.execution.problems()]

    @property
    def history(self) -> History:
        """What the commit log says, as far as this leader knows."""
        return self._claims.history

    @property
    def last_epoch(self) -> int | None:
        """The epoch that the job would go on from; None where there is none."""
        return self._starting.last_epoch(self._claims.history)

    # ------------------------------------------------------------ beginning an attempt

    def _on_decision(self, decision: Decision) -> None:
        if self.status.is_final:
            return
        match decision:
            case Start():
                self._job = decision.job
                self.fitting.took(decision.job)
                won = partial(self._begun, decision)
                self.execution.begin(decision, self._leader, won, self._try_again)
            case Over(ended):
                self._end_as(ended)
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

    def _begun(self, start: Start, begin: Begin) -> None:
        """The slot is won: this leader owns the job, and this attempt is the current one."""
        self._owns_log = True
        if not self.attempts:
            self.chronicle.past.succeed(start.history, begin)
        if not self.status.is_final:
            self.status = Status.LAUNCHING
            self.execution.launch(begin, start, self._job, self)

    # ------------------------------------------------------------ what an attempt tells

    def running(self) -> None:
        self.status = Status.RUNNING
        self.requests.running()

    def committed(self, place: FileRef, manifest: Manifest, is_last: bool) -> None:
        # Asked after failures alone: positions have to be unpacked for it.
        if self._restarts.have_failed and self.execution.has_progressed(manifest):
            self._restarts.on_progress()
        self.chronicle.setback = None
        self.requests.committed(manifest, self._job, is_last=is_last)
        self.execution.committed(place, manifest)

    def saved_epoch(self) -> Epoch | None:
        return self.requests.savepoints.saved_epoch()

    def ended(self, ending: Ending) -> None:
        self.chronicle.troubles.extend(ending.troubles)
        match ending:
            case Ending(How.FINISHED):
                self.chronicle.attempt_ended("")
                self._end(Status.FINISHED)
            case Ending(How.HALTED):
                self._halted()
            case Ending(How.FAILED, Exception() as error):
                self.execution.give_back(words(error))
                falls_back = self._starting.falls_back(error, self.attempts[-1].restored_from)
                self._try_again(error, may_heal=falls_back or None, worker=ending.worker)

    def _halted(self) -> None:
        if self.status.is_final:
            return
        job = self.requests.halted()
        self.chronicle.halted(self.last_epoch)
        if job is None:
            self.chronicle.attempt_ended("stopped")
            self._end(Status.STOPPED)
            return
        self._job = job
        self.fitting.rescaled(job)
        self.execution.give_back(RESCALED)
        self.status = Status.RESTARTING
        self.start()

    def _grow(self, job: JobSpec) -> None:
        """There is room for more workers: halt, and go on with them."""
        if not self.requests.is_halting:
            self.requests.rescale(job, lambda error: None)

    # ------------------------------------------------------------ ends

    def _try_again(
        self, error: Exception, may_heal: bool | None = None, worker: int | None = None
    ) -> None:
        """Whether and when there is another attempt is up to the error and the restart strategy."""
        if self.status.is_final:
            return
        if may_heal is None:
            is_first = len(self.attempts) == 1 and self.last_epoch is None
            may_heal = is_healed_by_restart(error, is_first=is_first)
        at = self._restarts.after(error, self._ports.clock.monotonic(), may_heal=may_heal)
        if at is None:
            self._fail_job(error, self._restarts.why_not_again, worker)
            return
        following = self._claims.history.next_attempt
        # Before the status: other threads that see the job restart are to see why.
        self.chronicle.will_try_again(error, at, following, self.last_epoch, worker)
        self.status = Status.RESTARTING

    def _end_as(self, ended: Ended) -> None:
        """The job has ended under another leader: it has ended here, and nothing is done for it."""
        self.chronicle.ended_elsewhere(ended)
        if ended.how == Status.FAILED.value:
            self.error = error_elsewhere(self._options.name, ended.reason)
        self._end(Status(ended.how))

    def _lost(self, slot: int) -> None:
        """Someone else took the slot. Before this leader has begun, it looks again and tries."""
        self._owns_log = False
        self._farewell.over()
        if self.attempts:
            self._fenced(slot)
        elif not self.status.is_final:
            self.start()

    def _fenced(self, slot: int) -> None:
        self.execution.stop("another leader took over", is_released=False)
        self._replaced(
            f"another driver has taken over job {self._options.name!r} (slot {slot} of the commit "
            "log is its), so this one stops. Run one driver for each snapshot directory, or "
            "several with ha=HighAvailability()."
        )

    def _replaced(self, what: str) -> None:
        self._owns_log = False
        self.is_replaced = self.is_replaced or not self.status.is_final
        self._fail_job(FencedError(what))

    def _fail_job(self, error: Exception, why: str = NOT_HEALED, worker: int | None = None) -> None:
        if self.status.is_final:
            return
        self.error = error_of_job(self._options.name, error)
        self.chronicle.has_given_up(error, why, worker, is_left=self._is_left_to_others)
        self._end(Status.FAILED)

    def _end(self, status: Status) -> None:
        if self.status.is_final:
            return
        self._restarts.at = None
        self.chronicle.setback = None
        self.status = status
        if self._owns_log and status is not Status.FINISHED and not self._is_left_to_others:
            reason = "" if self.error is None else str(self.error)[:MOST_REASON]
            attempt, at = self.attempts[-1].attempt, self._ports.clock.wall()
            self._farewell.say(Ended(status.value, attempt, at, reason))
        self.chronicle.epochs.store()
        how = self._ended_how or f"the job is over ({status.value})"
        self.requests.end(how, self.error, is_orderly=status.is_orderly)

    def check_invariants(self) -> None:
        self.execution.check_invariants()
        self.requests.savepoints.check_invariants()
