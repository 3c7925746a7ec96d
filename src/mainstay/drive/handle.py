"""The handle of a running job: what every drive gives, over a coordinator on a thread."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from html import escape
from typing import ClassVar, NoReturn, TextIO

from mainstay.drive.background import end_threads
from mainstay.drive.clock import SystemClock
from mainstay.drive.failures import FailureLog
from mainstay.drive.notices import Notices
from mainstay.drive.problems import ProblemLog, log_silent
from mainstay.drive.progress import ProgressLine
from mainstay.drive.recoveries import Recoveries
from mainstay.drive.restores import RestoreLog
from mainstay.drive.scaling import Scaling
from mainstay.drive.waited import JobStatus
from mainstay.errors import JobFailedError, SavepointError, UserFunctionError, brief
from mainstay.masking import refuse_login
from mainstay.runtime.coordinator import Coordinator
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.halting import Done
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.own_frames import with_own_frames
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.slowness import Silent
from mainstay.runtime.status import AttemptRecord, Problem, Recovery, Status
from mainstay.runtime.tracebacks import are_full, place_in_author_s_code, trim
from mainstay.runtime.worker import Deployment

_log = logging.getLogger("mainstay")

GLANCE_S = 0.25
STUCK_S = 3.0
"""A call of the author's code that takes so long is worth a word: all else waits for it."""
CANCEL_S = 5.0
"""How long an interrupted program waits for such a call to end."""
THREADS_END_S = 3.0


@with_own_frames
class JobHandle:
    """Runs ``_loop`` on a thread until the coordinator is done, then ``_close``."""

    coordinator: Coordinator
    runs_functions: ClassVar[bool] = False
    """Whether the author's functions are called on the thread of the loop."""

    def __init__(self, name: str, scaling: Scaling) -> None:
        self.name = name
        self._scaling = scaling
        self._parallelism = scaling.parallelism
        self._crash: BaseException | None = None
        self._clock = SystemClock()
        self._problem_log = ProblemLog(name, self._warn)
        self._failure_log = FailureLog(name, self._warn)
        self._restore_log = RestoreLog(name)
        self._notices = Notices(name)
        self._recoveries = Recoveries()
        self._line: ProgressLine | None = None
        self._passed_at = time.monotonic()
        self._is_stuck = False
        # Not the thread itself is waited for: an interrupt in Thread.join takes it for ended.
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"mainstay-{name}", daemon=True)

    def _start(self) -> None:
        atexit.register(self._abandon)
        self._thread.start()

    def _abandon(self) -> None:
        """The program ends before its job, which nobody waits for."""
        self._warn(
            "job %r was %s when the program ended, and ended with it. Call job.wait() before the "
            "end of the program; what is complete is kept, and goes on with "
            "restore='latest-or-new'",
            self.name,
            self.status,
        )

    def _run(self) -> None:
        try:
            try:
                self._loop()
                log_silent(self.name, self.coordinator)
            finally:
                self._log_news()
                self._close()
        except BaseException as error:
            self._crash = error
            if threading.main_thread().is_alive():
                _log.error("the drive of job %r broke", self.name, exc_info=error)
            else:  # the program has ended, and with it the threads that the job needs
                self._abandon()
        finally:
            atexit.unregister(self._abandon)
            self._has_ended.set()

    def _await_end(self, timeout: float | None = None) -> None:
        if self._has_ended.wait(timeout):
            self._thread.join()

    def _loop(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def _end_pool(self, pool: ThreadPoolExecutor) -> None:
        """A job that has finished tidies up to the end; any other waits for nobody."""
        is_orderly = self.coordinator.status.is_orderly
        end_threads(pool, THREADS_END_S, drop_waiting=not is_orderly)

    def _log_news(self) -> None:
        """Called on every pass of the loop, and after the last."""
        self._passed_at = time.monotonic()
        coordinator = self.coordinator
        self._recoveries.update(coordinator.status, coordinator.attempts, self._clock.wall())
        self._notices.update(coordinator.status, coordinator.attempts)
        self._restore_log.update(coordinator.attempts, coordinator.report)
        self._failure_log.update(coordinator.failures)
        self._failure_log.update_troubles(coordinator.troubles)
        self._problem_log.update(coordinator.problems())

    def _launching(self, deployment: Deployment) -> None:
        """Called when the workers of an attempt are about to be started."""
        self._notices.launched(deployment, self.coordinator.attempts[-1])

    def _warn(self, message: str, *arguments: object) -> None:
        """Log a warning, which must not go on where the progress line stands."""
        if self._line is not None:
            self._line.clear()
        _log.warning(message, *arguments)

    def post(self, report: Callable[[], None]) -> None:
        """Have something done on the loop; from any thread."""
        raise NotImplementedError

    # ------------------------------------------------------------ for the job's author

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, stopped, failed or cancelled."""
        return Status.FAILED.value if self._crash is not None else self.coordinator.status.value

    @property
    def parallelism(self) -> int:
        """The parallelism of every operator that was not given its own."""
        return self._parallelism

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> JobStatus:
        """Wait for the end and return the status; raises what made the job fail.

        After ``timeout`` seconds the status may be any: printed, it says what the job waits for,
        or why it is restarting. In a terminal a line shows how the job is doing. Ctrl-C cancels
        the job and says how to go on.
        """
        try:
            self._watch(timeout, ProgressLine(self, sys.stderr) if progress else None)
            if progress:
                self._show_report(sys.stderr)
        except KeyboardInterrupt as interrupt:
            self.post(self.coordinator.cancel)
            self._await_end(CANCEL_S)
            atexit.unregister(self._abandon)
            print(self._how_to_go_on(), file=sys.stderr, flush=True)
            raise interrupt.with_traceback(None) from None
        if self._has_ended.is_set():
            self._await_end()
        if self._crash is not None:
            raise JobFailedError(f"the drive of job {self.name!r} broke") from self._crash
        if self.coordinator.error is not None:
            self._raise(self.coordinator.error)
        return JobStatus(self.status, self.problems())

    def _raise(self, error: Exception) -> NoReturn:
        """With the author's own frames alone; those of the runtime are in the log."""
        if are_full():
            raise error
        trim(error)
        if isinstance(error, UserFunctionError):
            # It has the traceback of its cause in its text, also where the cause is far away.
            raise error from None
        raise error

    def _how_to_go_on(self) -> str:
        epoch = self.coordinator.last_epoch
        where = "before its first epoch" if epoch is None else f"at epoch {epoch}"
        how = "latest-or-new" if epoch is None else "latest"
        if not self._has_ended.is_set():
            place = place_in_author_s_code(self._thread.ident)
            told = f" It is still in {place}." if place else ""
            return f"{self.name}: ends with the program {where}; go on with restore={how!r}.{told}"
        then = "" if self.coordinator.status.is_orderly else f"; go on with restore={how!r}"
        return f"{self.name}: {self.status} {where}{then}"

    def _show_report(self, out: TextIO) -> None:
        """Where there is a terminal, tell who watches that there was nothing to do."""
        if self.coordinator.report and out.isatty():
            out.writelines(f"{self.name}: {line}\n" for line in self.coordinator.report)

    def _watch(self, timeout: float | None, line: ProgressLine | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        self._line = line
        try:
            while not self._has_ended.is_set():
                left = GLANCE_S if until is None else min(GLANCE_S, until - time.monotonic())
                if left <= 0:
                    break
                self._has_ended.wait(left)
                self._look_for_standstill()
                if line is not None:
                    line.update(time.monotonic(), self._notices.take())
        finally:
            self._line = None
            if line is not None:
                line.end()

    def _look_for_standstill(self) -> None:
        """Say where the author's code is that the job's only thread has not come back from."""
        if not self.runs_functions:
            return
        waited_s = time.monotonic() - self._passed_at
        if waited_s < STUCK_S or self._is_stuck:
            self._is_stuck = self._is_stuck and waited_s >= STUCK_S
            return
        if place := place_in_author_s_code(self._thread.ident):
            self._is_stuck = True
            self._warn(
                "job %r has waited for %.0f s for %s. Nothing else is done meanwhile: give what "
                "it calls a timeout; a source whose poll() waits for rows says may_block = True",
                self.name,
                waited_s,
                place,
            )

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask of the running attempt has done so far."""
        return self.coordinator.metrics()

    def problems(self) -> RecordList[Problem]:
        """What keeps the job from making progress just now; ``str`` of each is a line for people.

        What it waits for outside, such as a sink's target that does not answer: it goes on by
        itself when that is over. And the last failed attempt, until an epoch is complete again.
        """
        setback = self.coordinator.setback
        failed = [] if setback is None else [setback.as_problem(self._clock.monotonic())]
        return RecordList("problems", [*failed, *self.coordinator.problems()])

    def silent(self) -> list[Silent]:
        """The operators of the running attempt that took rows and have emitted none.

        A filter may do so; a function that does has perhaps forgotten its ``yield``.
        """
        return self.coordinator.silent()

    def cancel(self) -> None:
        """End the job, whatever it waits for. The last complete epoch can be restored."""
        self.post(self.coordinator.cancel)
        self._await_end()

    def savepoint(self, path: str | os.PathLike[str], timeout: float | None = None) -> str:
        """Write a savepoint of the running job; returns its path when it is there.

        The path is a folder that is absent or empty, or a URL of an object store. The job goes on
        meanwhile. Without an answer within ``timeout`` seconds ``TimeoutError`` is raised; the
        savepoint may still be finished.
        """
        place = os.fspath(path)
        refuse_login(place, SavepointError)
        self._ask(lambda done: self.coordinator.savepoint(place, done), timeout)
        return place

    def stop(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        drain: bool = False,
        timeout: float | None = None,
    ) -> str | None:
        """Bring the job to a standstill: one last epoch, confirmed by every sink, then the end.

        With a path that epoch is a savepoint as well, and the path is returned. The job can be
        started again from either and loses nothing. ``drain`` ends the input first, as at the end
        of a bounded job: operators emit what they hold back.
        """
        place = None if path is None else os.fspath(path)
        refuse_login(place or "", SavepointError)
        self._ask(lambda done: self.coordinator.stop(place, done, drain=drain), timeout)
        self._await_end(timeout)
        return place

    def rescale(self, parallelism: int, timeout: float | None = None) -> None:
        """Go on at another parallelism; returns when the job runs again.

        Takes an epoch, halts, and starts new workers from it. Operators that were given a
        parallelism of their own keep it.
        """
        spec = self._scaling.plan(parallelism)
        self._scaling.check(spec, self.coordinator.workers)
        self._ask(lambda done: self.coordinator.rescale(spec, done), timeout)
        self._parallelism = parallelism

    def _ask(self, ask: Callable[[Done], None], timeout: float | None) -> None:
        """Have the coordinator do something, and wait for its answer; raises what it says."""
        answer: Future[None] = Future()

        def done(error: Exception | None) -> None:
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        self.post(lambda: ask(done))
        until = None if timeout is None else time.monotonic() + timeout
        while not answer.done():
            left = GLANCE_S if until is None else min(GLANCE_S, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"job {self.name!r} did not answer within {timeout} s")
            # A loop that has ended answers nothing any more.
            if wait([answer], left).not_done and self._has_ended.is_set():
                break
        if not answer.done():
            cause = self._crash or self.coordinator.error
            raise JobFailedError(f"job {self.name!r} is over ({self.status})") from cause
        answer.result()

    def recoveries(self) -> RecordList[Recovery]:
        """How each attempt that has run took over from the one before it."""
        return RecordList("recoveries", self._recoveries.of(self.attempts()))

    def snapshots(self) -> RecordList[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured."""
        return RecordList("epochs", self.coordinator.records)

    @property
    def restored(self) -> tuple[str, ...]:
        """What the job went on from when it was started, a line for each thing.

        Which states were matched, added, dropped, converted and migrated; ``attempts`` has the
        same for each restart. For a job that had finished and has no new input, when that was and
        what would be new. Empty where it started fresh, and until the first attempt begins.
        """
        attempts = self.coordinator.attempts
        return attempts[0].report if attempts else self.coordinator.report

    def attempts(self) -> RecordList[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""
        return RecordList("attempts", self.coordinator.attempts)

    # ------------------------------------------------------------ for people

    def __repr__(self) -> str:
        return f"<Job {self.name!r}: {self._standing()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problems = "".join(f"<br>{escape(str(problem))}" for problem in self.problems())
        return f"<b>{escape(self.name)}</b>: {escape(self._standing())}{problems}"

    def _standing(self) -> str:
        complete = (each.epoch for each in self.snapshots() if each.status == "complete")
        last = max(complete, default=None)
        epoch = "no epoch yet" if last is None else f"epoch {last}"
        error = self._crash or self.coordinator.error
        reason = "" if error is None else f": {brief(error)}"
        return f"{self.status}, {epoch}, parallelism {self.parallelism}{reason}"
