"""The handle of a running job: what every drive gives, over a coordinator on a thread."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from mainstay.drive.background import end_threads
from mainstay.drive.problems import ProblemLog
from mainstay.drive.progress import ProgressLine
from mainstay.drive.restores import RestoreLog
from mainstay.drive.scaling import Scaling
from mainstay.errors import JobFailedError, SavepointError
from mainstay.masking import refuse_login
from mainstay.runtime.coordinator import Coordinator
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.halting import Done
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.status import AttemptRecord, Problem

GLANCE_S = 0.25
THREADS_END_S = 3.0


class JobHandle:
    """Runs ``_loop`` on a thread until the coordinator is done, then ``_close``."""

    coordinator: Coordinator

    def __init__(self, name: str, scaling: Scaling) -> None:
        self.name = name
        self._scaling = scaling
        self._parallelism = scaling.parallelism
        self._crash: BaseException | None = None
        self._problem_log = ProblemLog(name)
        self._restore_log = RestoreLog(name)
        self._thread = threading.Thread(target=self._run, name=f"mainstay-{name}", daemon=True)

    def _start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            try:
                self._loop()
            finally:
                self._close()
        except BaseException as error:
            self._crash = error

    def _loop(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def _end_pool(self, pool: ThreadPoolExecutor) -> None:
        """A job that has finished tidies up to the end; any other waits for nobody."""
        is_orderly = self.coordinator.status.is_orderly
        end_threads(pool, THREADS_END_S, drop_waiting=not is_orderly)

    def _log_news(self) -> None:
        """Called on every pass of the loop."""
        self._restore_log.update(self.coordinator.attempts)
        self._problem_log.update(self.coordinator.problems())

    def post(self, report: Callable[[], None]) -> None:
        """Have something done on the loop; from any thread."""
        raise NotImplementedError

    # ------------------------------------------------------------ for the job's author

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, stopped, failed or cancelled."""
        return self.coordinator.status.value

    @property
    def parallelism(self) -> int:
        """The parallelism of every operator that was not given its own."""
        return self._parallelism

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> str:
        """Wait for the end and return the status; raises what made the job fail.

        In a terminal a line shows how the job is doing. Ctrl-C ends the job in good order.
        """
        try:
            self._watch(timeout, ProgressLine(self, sys.stderr) if progress else None)
        except KeyboardInterrupt:
            self.cancel()
            raise
        if self._crash is not None:
            raise JobFailedError(f"the drive of job {self.name!r} broke") from self._crash
        if self.coordinator.error is not None:
            raise self.coordinator.error
        return self.status

    def _watch(self, timeout: float | None, line: ProgressLine | None) -> None:
        until = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            left = GLANCE_S if until is None else min(GLANCE_S, until - time.monotonic())
            if left <= 0:
                break
            self._thread.join(left)
            if line is not None:
                line.update(time.monotonic())
        if line is not None:
            line.end()

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask of the running attempt has done so far."""
        return self.coordinator.metrics()

    def problems(self) -> list[Problem]:
        """What the running job waits for outside, such as a sink's target that does not answer.

        It goes on by itself when that is over. ``str`` of a problem is a line for people.
        """
        return self.coordinator.problems()

    def cancel(self) -> None:
        """End the job, whatever it waits for. The last complete epoch can be restored."""
        self.post(self.coordinator.cancel)
        self._thread.join()

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
        self._thread.join(timeout)
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
            if wait([answer], left).not_done and not self._thread.is_alive():
                break
        if not answer.done():
            cause = self._crash or self.coordinator.error
            raise JobFailedError(f"job {self.name!r} is over ({self.status})") from cause
        answer.result()

    def snapshots(self) -> list[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured."""
        return list(self.coordinator.records)

    @property
    def restored(self) -> tuple[str, ...]:
        """What the job went on from when it was started, a line for each thing.

        Which states were matched, added, dropped, converted and migrated. Empty where it started
        fresh, and until the first attempt begins; ``attempts`` has the same for each restart.
        """
        attempts = self.coordinator.attempts
        return attempts[0].report if attempts else ()

    def attempts(self) -> list[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""
        return list(self.coordinator.attempts)
