"""Reports: what the workers of an attempt have said so far."""

from __future__ import annotations

from collections import Counter, deque
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
    Settled,
    TaskMetrics,
)
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem

LATELY_S = 5.0
"""Rates are those of the last seconds: workers report twice in a second, so less would jump."""


class Reports:
    """Which workers are ready, which input has ended, what sinks have confirmed, and figures."""

    def __init__(self, job: JobSpec) -> None:
        self.metrics: dict[Subtask, TaskMetrics] = {}
        self._lately: dict[Subtask, deque[TaskMetrics]] = {}
        self._heard: dict[Subtask, float] = {}
        """When each subtask has last reported figures."""
        self.ended: set[Subtask] = set()
        self.subtasks = frozenset((task.id, subtask) for task, subtask in job.subtasks())
        self._workers = job.workers
        sinks = [(task.id, subtask) for task, subtask in job.subtasks() if task.has_sink]
        self._sink_uids = {operator.uid for _, operator in job.operators() if operator.sink}
        self._ready: set[int] = set()
        self._confirmed: dict[Subtask, int] = dict.fromkeys(sinks, 0)
        self._confirming: Counter[int] = Counter(self._confirmed.values())
        """How many sinks have confirmed up to each epoch: it is asked for with every message."""
        self._settled: dict[Subtask, Epoch] = {}
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
                self._note_confirmed((task, subtask), epoch)
            case Settled(_, epoch, task, subtask):
                self._settled[(task, subtask)] = epoch
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
                    self._heard[(task, worker)] = now
                    self._remember((task, worker), figures)

    def _note_confirmed(self, sink: Subtask, epoch: Epoch) -> None:
        before = self._confirmed.get(sink)
        if before is None:
            return  # nobody waits for it
        self._confirmed[sink] = epoch
        self._confirming[epoch] += 1
        self._confirming[before] -= 1
        if not self._confirming[before]:
            del self._confirming[before]

    def _remember(self, subtask: Subtask, figures: TaskMetrics) -> None:
        """Keep what it said in the last seconds, and the one before, for rates."""
        lately = self._lately.setdefault(subtask, deque())
        lately.append(figures)
        while len(lately) > 2 and lately[1].lasted_s <= figures.lasted_s - LATELY_S:
            lately.popleft()

    def earlier(self) -> dict[Subtask, TaskMetrics]:
        """What each subtask had reported some seconds ago; by any thread."""
        return {subtask: lately[0] for subtask, lately in list(self._lately.items()) if lately}

    def ages(self, now: float) -> dict[Subtask, float]:
        """How long ago each subtask has reported; by any thread.

        A worker does so twice in a second, unless a call of a function holds its thread.
        """
        return {subtask: max(0.0, now - at) for subtask, at in list(self._heard.items())}

    @property
    def are_all_ready(self) -> bool:
        return len(self._ready) == self._workers

    @property
    def have_all_ended(self) -> bool:
        return self.ended == self.subtasks

    def confirmed(self, newest: int) -> int:
        """The epoch up to which every sink has confirmed; ``newest`` where there is no sink."""
        return min(self._confirming, default=newest)

    def settled(self, newest: int) -> int:
        """The epoch up to which every database of state has everything; ``newest`` without one."""
        return min(self._settled.values(), default=newest)

    def problems(self, now: float) -> list[Problem]:
        """What workers wait for outside."""
        reported = sorted(self._problems.items())
        return [replace(problem, waited_s=now - since) for _, (problem, since) in reported]

    @property
    def are_targets_away(self) -> bool:
        """Whether the target of a sink does not answer, or a database that votes on epochs."""
        return bool(self._holding)
