"""The handle of a running job: what every drive gives.

It asks the coordinator of the current term, which there is while this process leads the job.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from html import escape
from typing import Any, ClassVar, NoReturn, TextIO

import pyarrow as pa

from mainstay.api.job import Job
from mainstay.drive.asking import Asking
from mainstay.drive.exit_codes import FAILED, exit_code
from mainstay.drive.job_thread import JobThread
from mainstay.drive.progress import ProgressLine
from mainstay.drive.scaling import Scaling
from mainstay.drive.streams import is_terminal, tell
from mainstay.drive.termination import EXIT_CODE, Terminated, taking_sigterm
from mainstay.drive.waited import JobStatus
from mainstay.errors import (
    JobFailedError,
    JobOverError,
    NotLeadingError,
    SavepointError,
    UserFunctionError,
    brief,
)
from mainstay.ha.election import Election
from mainstay.inspect.answers import Answer
from mainstay.inspect.key_values import ALL_KEYS
from mainstay.inspect.positions import After
from mainstay.inspect.reading import LATEST
from mainstay.masking import refuse_login
from mainstay.own_frames import with_own_frames
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.halt import Done
from mainstay.runtime.coordinator.queries import Question, Told
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.options import JobOptions
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import AttemptRecord, EpochStatus, Problem, Recovery, Status
from mainstay.runtime.task_metrics import TaskMetricsByTask
from mainstay.snapshot.store_urls import refuse_torn
from mainstay.tracebacks import are_full, place_in_author_s_code, trim

_log = logging.getLogger("mainstay")

GLANCE_S = 0.25
CANCEL_S = 5.0
"""How long an interrupted program waits for a call of the author's code to end."""
LEAVE_S = 20.0
"""How long a driver waits for its workers to end, before it leaves their job to another."""


@with_own_frames
class JobHandle(JobThread, Job):
    """What the author of a job can see of it, and ask of it: documented in ``Job``."""

    runs_functions: ClassVar[bool] = False
    """Whether the author's functions are called on the thread of the loop."""

    def __init__(
        self,
        name: str,
        spec: JobSpec,
        options: JobOptions,
        scaling: Scaling | None = None,
        election: Election | None = None,
        place: str = "",
    ) -> None:
        super().__init__(name, spec, options, election)
        self._asking = Asking(
            name, place, lambda: self._spec, self._ask_live, self._has_ended.is_set
        )
        self._is_terminated = False
        self._scaling = scaling or Scaling.fixed(spec)
        self._parallelism = self._scaling.parallelism
        self._plans = {self._parallelism: spec}
        """The plans that were made so far, by their parallelism."""
        self.server: Any = None
        """What serves its page, if anything does. It ends with this handle."""

    @property
    def parallelism(self) -> int:
        return self._parallelism

    @property
    def asked_parallelism(self) -> int:
        leader = self._leadership.coordinator
        asked = self._spec if leader is None else leader.fitting.asked
        return self._number_of(asked)

    @property
    def url(self) -> str | None:
        return None if self.server is None else self.server.url

    @property
    def leader(self) -> str:
        return self._leadership.leader

    @property
    def exit_code(self) -> int | None:
        if self._crash is not None:
            return FAILED
        if self._is_terminated:
            return EXIT_CODE
        return exit_code(self._leadership.status, self._leadership.error)

    def _plan_at(self, parallelism: int) -> JobSpec:
        if parallelism not in self._plans:
            self._plans[parallelism] = self._scaling.plan(parallelism)
        return self._plans[parallelism]

    def _follow(self, job: JobSpec) -> None:
        """The job runs by this plan: it was asked for here, or was taken over."""
        self._spec = job
        self._parallelism = self._number_of(job)

    def _number_of(self, job: JobSpec) -> int:
        known = (number for number, plan in dict(self._plans).items() if plan is job)
        return next(known, self._parallelism)

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> JobStatus:
        try:
            with taking_sigterm():
                self._watch(timeout, ProgressLine(self, sys.stderr) if progress else None)
            if progress:
                self._show_report(sys.stderr)
        except KeyboardInterrupt as interrupt:
            self._end_with_program(self._leadership.cancel, CANCEL_S)
            raise interrupt.with_traceback(None) from None
        except Terminated as terminated:
            self._is_terminated = True
            if self._is_shared:
                self._end_with_program(self._leadership.leave, LEAVE_S)
            else:
                self._end_with_program(self._leadership.cancel, CANCEL_S)
            raise terminated.with_traceback(None) from None
        if self._has_ended.is_set():
            self._await_end()
        if self._crash is not None:
            raise JobFailedError(f"the drive of job {self.name!r} broke") from self._crash
        if (error := self._leadership.error) is not None:
            self._raise(error)
        return JobStatus(self.status, self.problems())

    def _end_with_program(self, end: Callable[[], None], patience_s: float) -> None:
        """End what this process does for the job, and say where it was."""
        was_running = self._leadership.status is Status.RUNNING
        self.post(end)
        self._await_end(patience_s)
        atexit.unregister(self._abandon)
        tell(self._how_to_go_on(was_running=was_running))

    def _raise(self, error: Exception) -> NoReturn:
        """With the author's own frames alone; those of the runtime are in the log."""
        if are_full():
            raise error
        trim(error)
        if isinstance(error, UserFunctionError):
            # It has the traceback of its cause in its text, also where the cause is far away.
            raise error from None
        raise error

    def _how_to_go_on(self, *, was_running: bool = True) -> str:
        leader = self._leadership.coordinator
        epoch = None if leader is None else leader.last_epoch
        where = "before its first epoch" if epoch is None else f"at epoch {epoch}"
        how = "latest-or-new" if epoch is None else "latest"
        if not self._has_ended.is_set():
            still = self._is_still(was_running)
            return f"{self.name}: ends with the program {where}; go on with restore={how!r}.{still}"
        if self._leadership.has_left:
            return f"{self.name}: this driver has ended, and has left the job to the others"
        then = "" if self._leadership.status.is_orderly else f"; go on with restore={how!r}"
        return f"{self.name}: {self.status} {where}{then}"

    def _is_still(self, was_running: bool) -> str:
        """What a job waits for that has been cancelled and has not ended."""
        if not self.runs_functions:
            return f" Its workers are still being {'ended' if was_running else 'started'}."
        place = place_in_author_s_code(self._thread.ident)
        return f" It is still in {place}." if place else ""

    def _show_report(self, out: TextIO | None) -> None:
        """Where there is a terminal, tell who watches that there was nothing to do."""
        leader = self._leadership.coordinator
        if leader is not None and is_terminal(out):
            for line in leader.chronicle.report:
                tell(f"{self.name}: {line}")

    def _watch(self, timeout: float | None, line: ProgressLine | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        self._line, self._is_awaited = line, True
        try:
            while not self._has_ended.is_set():
                left = GLANCE_S if until is None else min(GLANCE_S, until - time.monotonic())
                if left <= 0:
                    break
                self._has_ended.wait(left)
                if self.runs_functions:
                    self._standstill.look(self._thread.ident)
                if line is not None:
                    line.update(time.monotonic(), self._notices.take())
        finally:
            self._line, self._is_awaited = None, False
            if line is not None:
                line.end()

    def metrics(self) -> TaskMetricsByTask:
        leader = self._leadership.coordinator
        figures = {} if leader is None else leader.execution.metrics()
        return TaskMetricsByTask(figures, none=self._none("figures"))

    def _none(self, what: str) -> str:
        """What is said where there are none: of a job that has ended none will come."""
        return f"no {what}" if self._leadership.status.is_final else f"no {what} yet"

    def problems(self) -> RecordList[Problem]:
        leader = self._leadership.coordinator
        setback = None if leader is None else leader.chronicle.setback
        failed = [] if setback is None else [setback.as_problem(self._clock.monotonic())]
        waits = [] if leader is None else leader.problems()
        own = self._leadership.problems(self._clock.monotonic())
        problems = [*failed, *own, *self._waits(), *waits]
        return RecordList("problems", problems, none="no problems")

    def silent(self) -> list[Silent]:
        leader = self._leadership.coordinator
        return [] if leader is None else leader.execution.silent()

    def cancel(self) -> None:
        self.post(self._leadership.cancel)
        self._await_end()

    def snapshot(self, timeout: float | None = None) -> int:
        taken: list[int] = []

        def ask(leader: Coordinator, done: Done) -> None:
            def told(epoch: int | None, error: Exception | None) -> None:
                taken.extend([] if epoch is None else [epoch])
                done(error)

            leader.snapshot(told)

        self._ask(ask, timeout)
        return taken[0]

    def savepoint(self, path: str | os.PathLike[str], timeout: float | None = None) -> str:
        place = os.fspath(path)
        refuse_login(place, SavepointError)
        refuse_torn(place, SavepointError)
        self._ask(lambda leader, done: leader.savepoint(place, done), timeout)
        return place

    def stop(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        drain: bool = False,
        timeout: float | None = None,
    ) -> str | None:
        place = None if path is None else os.fspath(path)
        refuse_login(place or "", SavepointError)
        refuse_torn(place or "", SavepointError)
        try:
            self._ask(lambda leader, done: leader.stop(place, done, drain=drain), timeout)
        except JobOverError:
            self._stop_ended(place)
        self._await_end(timeout)
        return place

    def _stop_ended(self, place: str | None) -> None:
        """Say that there is nothing to stop, or what the caller would else take for granted."""
        if place is not None:
            raise SavepointError(
                f"the savepoint {place!r} was not written: job {self.name!r} is over "
                f"({self.status}). Start a job from its snapshot directory, which restore= takes "
                "in the place of a savepoint."
            )
        error = self._crash or self._leadership.error
        if error is not None:
            raise JobOverError(
                f"job {self.name!r} cannot be stopped: it has failed. {brief(error)}"
            ) from error
        if not self._leadership.status.is_orderly:
            raise JobOverError(f"there is nothing to stop. {self._how_to_go_on()}")
        self._say(f"{self.status} already, there is nothing to stop")

    def rescale(self, parallelism: int, timeout: float | None = None) -> None:
        spec = self._plan_at(parallelism)
        if parallelism == self._parallelism and not self._is_changing:
            self._say(f"runs at parallelism {parallelism} already, there is nothing to rescale")
            return
        self._scaling.check(spec, self._spec.workers)
        self._ask(lambda leader, done: leader.rescale(spec, done), timeout)
        self._follow(spec)

    @property
    def _is_changing(self) -> bool:
        """Whether the parallelism is about to be another, or the job does not run here."""
        status, leader = self._leadership.status, self._leadership.coordinator
        is_halting = leader is not None and leader.requests.is_halting
        return is_halting or status.is_final or status is Status.STANDBY

    def _have_led(
        self, act: Callable[[Coordinator], None], refuse: Callable[[Exception], None]
    ) -> None:
        """Have something done on the loop by the coordinator, where this process has one."""

        def on_the_loop() -> None:
            if (leader := self._leadership.coordinator) is not None:
                act(leader)
                return
            refuse(
                NotLeadingError(
                    f"this process does not lead job {self.name!r}: it is on standby. Ask the "
                    "process that leads it."
                )
            )

        self.post(on_the_loop)

    def _ask(self, ask: Callable[[Coordinator, Done], None], timeout: float | None) -> None:
        """Have the coordinator do something, and wait for its answer; raises what it says."""
        answer: Future[None] = Future()

        def done(error: Exception | None) -> None:
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        self._have_led(lambda leader: ask(leader, done), done)
        until = None if timeout is None else time.monotonic() + timeout
        while not answer.done():
            left = GLANCE_S if until is None else min(GLANCE_S, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"job {self.name!r} did not answer within {timeout} s")
            # A loop that has ended answers nothing any more.
            if wait([answer], left).not_done and self._has_ended.is_set():
                break
        if not answer.done():
            cause = self._crash or self._leadership.error
            raise JobOverError(f"job {self.name!r} is over ({self.status})") from cause
        answer.result()

    def query(
        self,
        state: str,
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = "live",
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> Answer:
        what: dict[str, Any] = {"key": key, "keys": keys, "limit": limit}
        when: dict[str, Any] = {"at": at, "epoch": epoch, "after": after, "timeout": timeout}
        return self.query_states([state], **what, **when)[state]

    def query_states(
        self,
        states: Sequence[str],
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = "live",
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        what: dict[str, Any] = {"key": key, "keys": keys, "limit": limit}
        when: dict[str, Any] = {"at": at, "epoch": epoch, "after": after, "timeout": timeout}
        return self._asking.query(states, **what, **when)

    def sql(self, statement: str, *, epoch: int | str = LATEST) -> pa.Table:
        return self._asking.sql(statement, epoch=epoch)

    def _ask_live(self, question: Question, tell: Told) -> None:
        self._have_led(lambda leader: leader.execution.ask(question, tell), tell)

    def recoveries(self) -> RecordList[Recovery]:
        return RecordList(
            "recoveries", self._recoveries.of(self.attempts()), none=self._none("recoveries")
        )

    def snapshots(self) -> RecordList[EpochRecord]:
        return RecordList("epochs", self._leadership.records, none=self._none("epochs"))

    @property
    def restored(self) -> tuple[str, ...]:
        if attempts := self._leadership.attempts:
            return attempts[0].report
        leader = self._leadership.coordinator
        return () if leader is None else leader.chronicle.report

    def attempts(self) -> RecordList[AttemptRecord]:
        return RecordList("attempts", self._leadership.attempts, none=self._none("attempts"))

    def failures(self) -> RecordList[FailureRecord]:
        return RecordList("failures", list(self._leadership.failures), none="no failures")

    # ------------------------------------------------------------ for people

    def __repr__(self) -> str:
        return f"<Job {self.name!r}: {self._standing()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        problems = "".join(f"<br>{escape(str(problem))}" for problem in self.problems())
        return f"<b>{escape(self.name)}</b>: {escape(self._standing())}{problems}"

    def _standing(self) -> str:
        complete = (each.epoch for each in self.snapshots() if each.status == EpochStatus.COMPLETE)
        last = max(complete, default=None)
        epoch = "no epoch yet" if last is None else f"epoch {last}"
        error = self._crash or self._leadership.error
        reason = "" if error is None else f": {brief(error)}"
        parallelism = f"parallelism {self.parallelism}"
        if self.parallelism != self.asked_parallelism:
            parallelism += f" of {self.asked_parallelism}"
        return f"{self.status}{self._led_by()}, {epoch}, {parallelism}{reason}"

    def _led_by(self) -> str:
        """Who leads the job, where it is another process and known."""
        is_elsewhere = self._leadership.status is Status.STANDBY and self.leader
        return f" ({self.leader} leads)" if is_elsewhere else ""
