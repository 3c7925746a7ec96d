"""Insight into a running job: what those who show it need beside what its author is promised."""

from __future__ import annotations

from mainstay.drive.leadership import Leadership
from mainstay.drive.output_record import OutputRecord
from mainstay.runtime.coordinator.epochs import PendingEpoch, Subtask
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.options import JobOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.history import History


class Insight:
    """Reads the coordinator of the current term, where there is one. Any thread may ask."""

    def __init__(
        self,
        leadership: Leadership,
        options: JobOptions,
        now: float,
        output: OutputRecord,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.hidden = hidden
        """The states that nobody is told about, each ``operator.state``."""
        self.output = output
        """What functions have printed."""
        self.started_at = now
        """When this process started the job."""
        self.status_since_at = now
        self._status = ""
        self._leadership = leadership
        self._options = options

    def note(self, status: str, now: float) -> None:
        """Called on every pass of the loop."""
        if status != self._status:
            self._status, self.status_since_at = status, now

    @property
    def every_s(self) -> float:
        return self._options.snapshots.every_s

    @property
    def retain(self) -> int:
        return self._options.snapshots.retain

    @property
    def spec(self) -> JobSpec | None:
        """The plan at the parallelism that the job has now; None while this process stands by."""
        leader = self._leadership.coordinator
        return None if leader is None else leader.job

    @property
    def history(self) -> History | None:
        """What the commit log says, as far as the leader knows; None while another one leads."""
        leader = self._leadership.coordinator
        return None if leader is None else leader.history

    @property
    def error(self) -> Exception | None:
        """What made the job fail."""
        return self._leadership.error

    def whereabouts(self) -> dict[str, int | None]:
        """The attempt that runs, and the last complete epoch; None where there is none."""
        leader = self._leadership.coordinator
        if leader is None:
            return {"attempt": None, "epoch": None}
        latest = leader.history.latest_epoch
        return {
            "attempt": leader.chronicle.last_attempt,
            "epoch": None if latest is None else latest.epoch,
        }

    def earlier_metrics(self) -> dict[Subtask, TaskMetrics]:
        """What each subtask had reported some seconds ago."""
        leader = self._leadership.coordinator
        return {} if leader is None else leader.execution.earlier_metrics()

    def report_ages(self) -> dict[Subtask, float]:
        """How long ago each subtask has reported."""
        leader = self._leadership.coordinator
        return {} if leader is None else leader.execution.report_ages()

    def pending(self) -> list[PendingEpoch]:
        """The epochs that are under way."""
        leader = self._leadership.coordinator
        return [] if leader is None else leader.execution.pending()
