"""The handle of a running job."""

from __future__ import annotations

from typing import Protocol

from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.status import AttemptRecord


class Job(Protocol):
    """What ``Environment.start`` returns."""

    name: str

    @property
    def status(self) -> str:
        """starting, launching, running, restarting, finished, failed or cancelled."""

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> str:
        """Wait for the end and return the final status; raises what made the job fail."""

    def cancel(self) -> None:
        """End the job. The last complete epoch can be restored."""

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        """What each subtask, named by its task and number, has done in the running attempt."""

    def snapshots(self) -> list[EpochRecord]:
        """The epochs so far, oldest first, with what each subtask measured."""

    def attempts(self) -> list[AttemptRecord]:
        """The attempts so far, with what each was restored from and why it ended."""
