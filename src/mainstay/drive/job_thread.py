"""The thread of a job: runs its loop to the end, and tells people what happens meanwhile."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mainstay.drive.background import ThreadBackground, end_threads
from mainstay.drive.clock import SystemClock
from mainstay.drive.failures import FailureLog
from mainstay.drive.graph_log import GraphLog
from mainstay.drive.insight import Insight
from mainstay.drive.leadership import Leadership, Term, new_token
from mainstay.drive.notices import Notices, say_at_once
from mainstay.drive.output_record import OutputRecord
from mainstay.drive.problems import ProblemLog, log_silent
from mainstay.drive.progress import ProgressLine
from mainstay.drive.recoveries import Recoveries
from mainstay.drive.restores import RestoreLog
from mainstay.drive.service import ServiceManager
from mainstay.drive.standstill import Standstill
from mainstay.ha.election import Alone, Election
from mainstay.inspect.hidden import hidden_states
from mainstay.logs import configure_from_environment, logging_for
from mainstay.runtime.coordinator.cluster import Cluster
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.epoch_history import past_epochs
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem, Status
from mainstay.snapshot.commitlog import free_slot
from mainstay.snapshot.guarded import GuardedStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.warm import WarmStorage

_log = logging.getLogger("mainstay")

THREADS_END_S = 3.0
_ENDING_S = 5.0
"""How long the end of a program takes at most, once its pools of threads take no more work."""
WARM_S = 5.0
"""How often a process on standby looks for a newer manifest."""


class JobThread:
    """Runs ``_loop`` on a thread until the job is done, then ``_close``.

    ``_term`` gives the coordinator of a new term, with the plan that the job has by then.
    """

    _pool: ThreadPoolExecutor

    def __init__(
        self, name: str, spec: JobSpec, options: JobOptions, election: Election | None = None
    ) -> None:
        configure_from_environment()
        self.name = name
        self._spec = spec
        self._options = options
        election = election or Alone()
        self._is_shared = election.can_win_again
        self._joined: int | None = None
        self._warm: WarmStorage | None = None
        self._warm_at = 0.0
        self._reading: Future[int] | None = None
        self._leadership = Leadership(election, self._term, self.post, self._on_replaced)
        self._crash: BaseException | None = None
        self._clock = SystemClock()
        self._problem_log = ProblemLog(name, self._warn)
        self._failure_log = FailureLog(name, self._warn, lambda: self._is_awaited)
        self._restore_log = RestoreLog(name)
        self._notices = Notices(name)
        self._recoveries = Recoveries()
        output = OutputRecord(name, self._clear_line)
        now, hidden = self._clock.wall(), hidden_states(spec)
        self.insight = Insight(self._leadership, options, now, output, hidden)
        self._service = ServiceManager()
        self._line: ProgressLine | None = None
        self._is_awaited = False
        self._standstill = Standstill(name, self._warn)
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
        with logging_for(self._log_fields):
            self._run_to_the_end()

    def _log_fields(self) -> dict[str, Any]:
        """What a structured log says of each record of this thread."""
        return {"job": self.name, **self.insight.whereabouts()}

    def _run_to_the_end(self) -> None:
        try:
            try:
                self._loop()
                log_silent(self.name, self._leadership.coordinator)
            finally:
                self._log_news()
                try:
                    self._close()
                finally:
                    # The workers are gone by now: nobody else should lead before.
                    self._leadership.close()
        except BaseException as error:
            if _ends_with_program(error):
                self._abandon()
                self._crash = error
            else:
                self._crash = error
                _log.error("the drive of job %r broke", self.name, exc_info=error)
        finally:
            atexit.unregister(self._abandon)
            self._has_ended.set()

    def _await_end(self, timeout: float | None = None) -> None:
        if self._has_ended.wait(timeout):
            self._thread.join()

    def _term(self) -> Term:
        raise NotImplementedError

    def _lead(
        self,
        background: ThreadBackground,
        send: Callable[[int, Any], None],
        storage: Storage,
        cluster: Cluster,
    ) -> Term:
        """A term with a new coordinator, which takes over what others have come to."""
        leads = self._leadership.guard()
        warm = self._warm or storage
        guarded = GuardedStorage(warm, lambda: leads() and not leader.is_replaced)
        ports = Ports(self._clock, background, send, guarded, open_storage)
        succession = Succession(self._joined, self._plan_at)
        leader = Coordinator(self._spec, self._options, ports, cluster, new_token, succession)
        return Term(leader, background, lambda: past_epochs(storage))

    def _plan_at(self, parallelism: int) -> JobSpec:
        raise NotImplementedError

    def _follow(self, job: JobSpec) -> None:
        raise NotImplementedError

    def _campaign(self, storage: Storage) -> None:
        """Join the job: what happens in its log from now on, others have done."""
        self._graphs = GraphLog(storage, self._pool)
        if self._is_shared:
            self._joined = free_slot(storage)
            self._warm = WarmStorage(storage)
        self._leadership.campaign()

    def _keep_warm(self) -> None:
        """On standby, read ahead now and then what a leader needs first. Nobody depends on it."""
        now, reading = self._clock.monotonic(), self._reading
        if reading is not None and reading.done() and self._joined is None:
            # The log could not be read when this process joined.
            self._joined = None if reading.exception() else reading.result()
        is_due = now >= self._warm_at and (reading is None or reading.done())
        if self._warm is not None and is_due and self._leadership.status is Status.STANDBY:
            self._warm_at = now + WARM_S
            self._reading = self._pool.submit(self._warm.read_ahead)

    def _loop(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def _end_pool(self, pool: ThreadPoolExecutor) -> None:
        """A job that has finished tidies up to the end; any other waits for nobody.

        One that is left to others first stores that it is, so that they need not guess.
        """
        is_orderly = self._leadership.status.is_orderly or self._leadership.has_left
        end_threads(pool, THREADS_END_S, drop_waiting=not is_orderly)

    def _log_news(self) -> None:
        """Called on every pass of the loop, and after the last."""
        self._standstill.passed()
        self._keep_warm()
        self.insight.note(self.status, self._clock.wall())
        self._service.update(f"{self.name}: {self.status}", self._clock.monotonic())
        if (coordinator := self._leadership.coordinator) is not None:
            self._log_news_of(coordinator)

    def _log_news_of(self, coordinator: Coordinator) -> None:
        news, attempts = coordinator.chronicle, self._leadership.attempts
        if coordinator.job is not self._spec:
            self._follow(coordinator.job)
        self._recoveries.update(coordinator.status, attempts, self._clock.wall())
        if coordinator.attempts and self._leadership.silent_s > 0:
            first = coordinator.attempts[0]
            self._recoveries.took_over(first.attempt, first.begun_at - self._leadership.silent_s)
        self._notices.update(coordinator.status, attempts)
        self._notices.pass_on(news.remarks)
        self._restore_log.update(attempts, news.report)
        self._failure_log.update(news.failures)
        is_over = coordinator.status.is_final
        self._failure_log.update_troubles(news.troubles, len(attempts), is_over=is_over)
        self._problem_log.update([*self._waits(), *coordinator.problems()])

    def _waits(self) -> list[Problem]:
        """What the drive itself waits for just now."""
        return []

    def _on_replaced(self, coordinator: Coordinator) -> None:
        """A term of this process is over, and there may be another."""
        failures = coordinator.chronicle.failures
        if failures and failures[-1].error is coordinator.error:
            failures.pop()  # the job goes on elsewhere: it has not failed
        self._log_news_of(coordinator)
        if not self._leadership.has_left:
            self._warn("job %r is on standby: %s", self.name, coordinator.error)

    def _launching(self, deployment: Deployment) -> None:
        """Called when the workers of an attempt are about to be started."""
        self._graphs.launched(deployment)
        self._notices.launched(deployment, self._leadership.attempts[-1])

    def _warn(self, message: str, *arguments: object) -> None:
        """Log a warning, which must not go on where the progress line stands."""
        if self._line is not None:
            # What was noticed before it is shown before it.
            self._line.clear(self._notices.take())
        _log.warning(message, *arguments)

    def post(self, report: Callable[[], None]) -> None:
        """Have something done on the loop; from any thread."""
        raise NotImplementedError

    def _clear_line(self) -> None:
        """Before something is written where the progress line stands."""
        if self._line is not None:
            self._line.clear()

    def _say(self, text: str) -> None:
        self._clear_line()
        say_at_once(f"job {self.name!r}: {text}")

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, stopped, failed or cancelled.

        Or standby: this process does not lead the job.
        """
        return Status.FAILED.value if self._crash is not None else self._leadership.status.value

    @property
    def is_over(self) -> bool:
        """Whether the job has come to an end here, one way or another."""
        return self._crash is not None or self._leadership.status.is_final


def _ends_with_program(error: BaseException) -> bool:
    """Whether a job broke because its program ends, and with it the threads that the job needs.

    Pools of threads take no more work a little before the main thread has ended. Python says so in
    words alone.
    """
    main = threading.main_thread()
    if isinstance(error, RuntimeError) and "shutdown" in str(error):
        main.join(_ENDING_S)
    return not main.is_alive()
