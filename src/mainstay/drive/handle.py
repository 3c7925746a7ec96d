"""The handle of a running job: what every drive gives, over a coordinator on a thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from mainstay.drive.progress import ProgressLine
from mainstay.errors import JobFailedError
from mainstay.runtime.coordinator import Coordinator
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.status import AttemptRecord

GLANCE_S = 0.25


class JobHandle:
    """Runs ``_loop`` on a thread until the coordinator is done, then ``_close``."""

    coordinator: Coordinator

    def __init__(self, name: str) -> None:
        self.name = name
        self._crash: BaseException | None = None
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

    def post(self, report: Callable[[], None]) -> None:
        """Have something done on the loop; from any thread."""
        raise NotImplementedError

    # ------------------------------------------------------------ for the job's author

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, failed or cancelled."""
        return self.coordinator.status.value

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

    def cancel(self) -> None:
        """End the job. The last complete epoch can be restored."""
        self.post(self.coordinator.cancel)
        self._thread.join()

    def snapshots(self) -> list[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured."""
        return list(self.coordinator.records)

    def attempts(self) -> list[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""
        return list(self.coordinator.attempts)
