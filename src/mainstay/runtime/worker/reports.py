"""What tasks and workers tell the coordinator of themselves, without being asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mainstay.runtime.messages import (
    Acknowledge,
    Attempt,
    Committed,
    Decline,
    Ended,
    Epoch,
    Figures,
    Metrics,
    OutsideProblem,
    Settled,
)
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.status import Problem
from mainstay.runtime.worker.member import Member
from mainstay.snapshot.manifest import SubtaskState

if TYPE_CHECKING:
    from mainstay.runtime.worker.task import Task

METRICS_S = 0.5
"""How often a worker says what its tasks have done."""


class TaskReports:
    """The reports of one subtask. What has not changed is not said again."""

    def __init__(
        self, ports: Ports, attempt: Attempt, task: str, subtask: int, members: Sequence[Member]
    ) -> None:
        self._ports = ports
        self._attempt = attempt
        self._task = task
        self._subtask = subtask
        self._members = members
        self._sinks = [m.operator for m in members if m.operator.confirmed is not None]
        self._confirmed = Epoch(0)
        keyed = [m.keyed.backend for m in members if m.keyed is not None]
        self._databases = [backend for backend in keyed if backend.is_remote]
        self._complete = self._settled = Epoch(0)
        self._problems: dict[str, Problem] = {}

    def _tell(self, message: Any) -> None:
        self._ports.send(COORDINATOR, message)

    def acknowledge(self, epoch: Epoch, states: dict[str, SubtaskState], figures: Figures) -> None:
        whose = (self._task, self._subtask)
        self._tell(Acknowledge(self._attempt, epoch, *whose, states, figures))

    def decline(self, epoch: Epoch, reason: str) -> None:
        self._tell(Decline(self._attempt, epoch, self._task, self._subtask, reason))

    def ended(self) -> None:
        self._tell(Ended(self._attempt, self._task, self._subtask))

    def confirmed(self) -> None:
        """Say up to which epoch the targets of its sinks have confirmed everything."""
        if not self._sinks:
            return
        confirmed = min(sink.confirmed or Epoch(0) for sink in self._sinks)
        if confirmed > self._confirmed:
            self._confirmed = confirmed
            self._tell(Committed(self._attempt, confirmed, self._task, self._subtask))

    def opened(self) -> None:
        """Say that there are databases to be waited for."""
        if self._databases:
            self._tell(Settled(self._attempt, Epoch(0), self._task, self._subtask))

    def complete(self, epoch: Epoch) -> None:
        """An epoch is complete, and its state on the way to the databases."""
        self._complete = max(self._complete, epoch)

    def settled(self) -> None:
        """Say up to which complete epoch the databases of its state have everything."""
        if self._complete > self._settled and all(
            database.is_settled(self._complete) for database in self._databases
        ):
            self._settled = self._complete
            if self._databases:
                self._tell(Settled(self._attempt, self._settled, self._task, self._subtask))

    def problems(self, now: float) -> None:
        """Say what keeps an operator from its work that is not the job's own fault."""
        for member in self._members:
            problem = member.problem(now)
            if problem is None and not self._problems:
                continue  # mostly, with every step
            if problem == self._problems.get(member.uid):
                continue
            self._problems.pop(member.uid, None)
            if problem is not None:
                self._problems[member.uid] = problem
            whose = (self._attempt, member.uid, self._subtask)
            self._tell(OutsideProblem(*whose, problem, member.holds_epochs))


class WorkerMetrics:
    """The figures of a worker's tasks, every half second and whenever a task has ended."""

    def __init__(self, ports: Ports, attempt: Attempt, worker: int) -> None:
        self._ports = ports
        self._attempt = attempt
        self._worker = worker
        self._ended = 0
        self._due_at = ports.clock.monotonic()

    def hurry(self) -> None:
        """Report at the next opportunity."""
        self._due_at = self._ports.clock.monotonic()

    def report(self, tasks: Sequence[Task]) -> None:
        now = self._ports.clock.monotonic()
        ended = sum(task.ended for task in tasks)
        if now >= self._due_at or ended > self._ended:
            # What a task came to is said with its end, however short it was.
            self._ended = ended
            self._due_at = now + METRICS_S
            figures = {task.spec.id: task.metrics() for task in tasks}
            self._ports.send(COORDINATOR, Metrics(self._attempt, self._worker, figures))
