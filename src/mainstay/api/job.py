"""The handle of a running job."""

from __future__ import annotations

import os
from typing import Protocol

from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.status import AttemptRecord, Problem, Recovery


class Job(Protocol):
    """What ``Environment.start`` returns.

    What it returns as a list is a table in a terminal and in a notebook.
    """

    name: str

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, stopped, failed or cancelled."""

    @property
    def parallelism(self) -> int:
        """The parallelism of every operator that was not given its own."""

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> str:
        """Wait for the end and return the final status; raises what made the job fail.

        After ``timeout`` seconds it returns the status that the job has then: equal to the bare
        word, and printed with what the job waits for, or why it is restarting.
        """

    def cancel(self) -> None:
        """End the job. The last complete epoch can be restored."""

    def savepoint(self, path: str | os.PathLike[str], timeout: float | None = None) -> str:
        """Write a savepoint of the running job; returns its path when it is there."""

    def stop(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        drain: bool = False,
        timeout: float | None = None,
    ) -> str | None:
        """Bring the job to a standstill that it can be started from again, and end it."""

    def rescale(self, parallelism: int, timeout: float | None = None) -> None:
        """Go on at another parallelism; returns when the job runs again."""

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask, named by its task and number, has done in the running attempt."""

    def problems(self) -> RecordList[Problem]:
        """What the running job waits for outside; it goes on by itself when that is over."""

    def snapshots(self) -> RecordList[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured.

        Of a job that had finished and has nothing new to read, the last epoch that it had.
        """

    @property
    def restored(self) -> tuple[str, ...]:
        """What the job went on from when it was started, a line for each state.

        For a job that had finished and has no new input: when that was, and what would be new.
        """

    def recoveries(self) -> RecordList[Recovery]:
        """How each attempt that has run took over from the one before it, and how long it took."""

    def attempts(self) -> RecordList[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""
