"""Reports: what the workers of an attempt have said so far."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainstay.runtime.coordinator.epochs import Subtask
from mainstay.runtime.messages import (
    Committed,
    Ended,
    Epoch,
    Metrics,
    OutsideProblem,
    Ready,
    TaskMetrics,
)
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem


class Reports:
    """Which workers are ready, which input has ended, what sinks have confirmed, and figures."""

    def __init__(self, job: JobSpec) -> None:
        self.metrics: dict[Subtask, TaskMetrics] = {}
        self.ended: set[Subtask] = set()
        self.subtasks = frozenset((task.id, subtask) for task, subtask in job.subtasks())
        self._workers = job.workers
        self._sinks = [(task.id, subtask) for task, subtask in job.subtasks() if task.has_sink]
        self._sink_uids = {operator.uid for _, operator in job.operators() if operator.sink}
        self._ready: set[int] = set()
        self._confirmed: dict[Subtask, Epoch] = {}
        self._problems: dict[Subtask, tuple[Problem, float]] = {}
        """By sink or source and subtask, with the time at which each began."""
        self._holding: set[Subtask] = set()

    def take(self, message: Any, now: float) -> None:
        """Note what a message reports; others than reports are left alone."""
        match message:
            case Ready(_, worker):
                self._ready.add(worker)
            case Ended(_, task, subtask):
                self.ended.add((task, subtask))
            case Committed(_, epoch, task, subtask):
                self._confirmed[(task, subtask)] = epoch
            case OutsideProblem(_, uid, subtask, problem, holds_epochs):
                self._problems.pop((uid, subtask), None)
                self._holding.discard((uid, subtask))
                if problem is not None:
                    self._problems[(uid, subtask)] = (problem, now - problem.waited_s)
                    if holds_epochs or uid in self._sink_uids:
                        self._holding.add((uid, subtask))
            case Metrics(_, worker, tasks):
                for task, figures in tasks.items():
                    self.metrics[(task, worker)] = figures

    @property
    def are_all_ready(self) -> bool:
        return len(self._ready) == self._workers

    @property
    def have_all_ended(self) -> bool:
        return self.ended == self.subtasks

    def confirmed(self, newest: int) -> int:
        """The epoch up to which every sink has confirmed; ``newest`` where there is no sink."""
        return min((self._confirmed.get(sink, 0) for sink in self._sinks), default=newest)

    def problems(self, now: float) -> list[Problem]:
        """What workers wait for outside."""
        reported = sorted(self._problems.items())
        return [replace(problem, waited_s=now - since) for _, (problem, since) in reported]

    @property
    def are_targets_away(self) -> bool:
        """Whether the target of a sink does not answer, or a database that votes on epochs."""
        return bool(self._holding)
