"""Standstill: event time that does not move on, and who holds it back.

Windows and timers wait for event time in silence. Who waits for their results in vain is told which
source is quiet, and what would help. Nothing here changes what a job does.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from mainstay.runtime.coordinator.epochs import Subtask
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.own_states import TOLD
from mainstay.runtime.record_list import shown_time
from mainstay.runtime.spec import JobSpec, TaskSpec
from mainstay.runtime.status import Problem
from mainstay.runtime.watermarks import END_US

PATIENCE_S = 30.0
"""Event time that has not moved for so long stands still."""


@dataclass(slots=True)
class Standstill:
    """Since when event time stands still, for each task that waits for it."""

    job: JobSpec
    _since: dict[str, tuple[int | None, float]] = field(default_factory=dict)

    def problems(
        self, metrics: Mapping[Subtask, TaskMetrics], ended: Set[Subtask], now: float
    ) -> list[Problem]:
        """A problem for each task that has taken rows and waits for event time in vain."""
        found = []
        for task in self.job.tasks:
            uids = [each.uid for each in task.operators if each.needs_time]
            figures = _of(task, metrics)
            if not uids or len(figures) < task.parallelism or not any(f.rows for f in figures):
                continue
            time_us = _lowest(figures)
            before, since = self._since.get(task.id, (None, now))
            since = since if before == time_us else now
            self._since[task.id] = (time_us, since)
            is_over = time_us is not None and time_us >= END_US
            if not is_over and now - since >= PATIENCE_S:
                why = self._why(task, metrics, ended, time_us)
                found.append(_problem(uids, time_us, why, now - since))
        return found

    def _why(
        self,
        task: TaskSpec,
        metrics: Mapping[Subtask, TaskMetrics],
        ended: Set[Subtask],
        time_us: int | None,
    ) -> str:
        holding: list[tuple[str, int, bool]] = []
        ahead = False
        for source in self._sources(task):
            tells = TOLD in source.operators[0].states
            for number in range(source.parallelism):
                figures = metrics.get((source.id, number), TaskMetrics())
                if (source.id, number) in ended or (tells and figures.is_idle):
                    continue
                told = figures.watermark_us
                if told is None or (time_us is not None and told <= time_us):
                    holding.append((source.operators[0].uid, number, tells))
                else:
                    ahead = True
        return _reason(holding, is_behind=ahead)

    def _sources(self, task: TaskSpec) -> list[TaskSpec]:
        """The tasks with sources that a task reads from, directly or not."""
        tasks = {each.id: each for each in self.job.tasks}
        found, to_see = dict[str, TaskSpec](), [task.id]
        while to_see:
            each = tasks[to_see.pop()]
            if each.id not in found:
                found[each.id] = each
                to_see += [edge.sender for edge in each.inputs]
        return [each for each in self.job.tasks if each.id in found and each.is_source]


def _of(task: TaskSpec, metrics: Mapping[Subtask, TaskMetrics]) -> list[TaskMetrics]:
    found = (metrics.get((task.id, number)) for number in range(task.parallelism))
    return [figures for figures in found if figures is not None]


def _lowest(figures: list[TaskMetrics]) -> int | None:
    times = [each.watermark_us for each in figures]
    return None if None in times else min(time for time in times if time is not None)


def _problem(uids: list[str], time_us: int | None, why: str, waited_s: float) -> Problem:
    named = " and ".join(map(repr, uids))
    stands = "is not known" if time_us is None else f"stands at {shown_time(time_us // 1_000_000)}"
    what = f"has waited for event time, which {stands},"
    return Problem(f"operator {named}", what, why, waited_s, comes_and_goes=True)


def _reason(holding: list[tuple[str, int, bool]], *, is_behind: bool) -> str:
    silent = next((each for each in holding if not each[2]), None)
    if silent is not None:
        return (
            f"source {silent[0]!r} tells no event time, and holds it back until it has ended. Give "
            "it a watermark"
        )
    if not holding:
        return (
            "all sources are idle. What is waited for comes when one of them has a row of a later "
            "time, or at the end of input"
        )
    uid, number, _ = holding[0]
    more = f" (and {len(holding) - 1} more)" if len(holding) > 1 else ""
    named = f"source {uid!r}, subtask {number}{more}"
    if is_behind:
        return (
            f"{named} has had no row of a later time and holds the others back. If it may be quiet "
            'for long, say so: ms.Watermark(..., idle="1min")'
        )
    return (
        f"{named} has had no row of a later time. What is waited for comes with the next one, less "
        "the delay of the watermark, or at the end of input"
    )
