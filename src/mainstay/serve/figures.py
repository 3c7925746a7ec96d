"""The figures of tasks as documents: counts of the attempt, and rates of the last seconds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mainstay.runtime.coordinator.epochs import Subtask
from mainstay.runtime.messages import StateReads, TaskMetrics
from mainstay.runtime.spec import JobSpec, TaskSpec
from mainstay.runtime.watermarks import END_US
from mainstay.serve.documents import (
    CountsDocument,
    HotKeyDocument,
    StateReadsDocument,
    SubtaskDocument,
    TaskFigures,
)

_NOTHING = TaskMetrics()
HELD_S = 3.0
"""A worker that has not reported for so long is held by a call: it reports twice in a second."""


def figures_of(
    spec: JobSpec,
    metrics: Mapping[Subtask, TaskMetrics],
    earlier: Mapping[Subtask, TaskMetrics],
    ages: Mapping[Subtask, float] = MappingProxyType({}),
    *,
    is_running: bool,
) -> list[TaskFigures]:
    """What each task has done. What does not run has no rates.

    ``ages`` is how long ago each subtask has reported.
    """
    found = []
    for task in spec.tasks:
        subtasks = [
            _Subtask(
                task,
                number,
                metrics[task.id, number],
                earlier.get((task.id, number)),
                ages.get((task.id, number)),
            )
            for number in range(task.parallelism)
            if (task.id, number) in metrics
        ]
        found.append(_task(task, [each.document(is_running) for each in subtasks]))
    return found


def _task(task: TaskSpec, subtasks: list[SubtaskDocument]) -> TaskFigures:
    return TaskFigures(
        task=task.id,
        operators=[each.uid for each in task.operators],
        parallelism=task.parallelism,
        rows=sum(each.rows for each in subtasks),
        rows_per_s=sum(each.rows_per_s for each in subtasks),
        # An average would hide the one that is stuck.
        busy=max((each.busy for each in subtasks), default=0.0),
        backpressured=max((each.backpressured for each in subtasks), default=0.0),
        waiting_rows=sum(each.waiting_rows for each in subtasks),
        subtasks=subtasks,
    )


class _Subtask:
    """One subtask, now and some seconds ago."""

    def __init__(
        self,
        task: TaskSpec,
        number: int,
        now: TaskMetrics,
        before: TaskMetrics | None,
        age_s: float | None,
    ) -> None:
        # Where it has reported once only, its rates are those since its beginning.
        before = before if before is not None and before.lasted_s < now.lasted_s else _NOTHING
        self._task = task
        self._number = number
        self._now = now
        self._before = before
        self._span_s = now.lasted_s - before.lasted_s
        self._age_s = age_s

    def document(self, is_running: bool) -> SubtaskDocument:
        now, before = self._now, self._before
        if not is_running:
            self._span_s = 0.0
        busy = self._part(now.busy_s - before.busy_s)
        held_back = min(self._part(now.held_back_s - before.held_back_s), 1.0 - busy)
        return SubtaskDocument(
            subtask=self._number,
            rows=now.rows,
            rows_per_s=self._rate(now.rows - before.rows),
            emitted_per_s=self._rate(self._emitted(now) - self._emitted(before)),
            busy=busy,
            backpressured=held_back,
            idle=1.0 - busy - held_back,
            busy_total_s=now.busy_s,
            backpressured_total_s=now.held_back_s,
            idle_total_s=max(0.0, now.lasted_s - now.busy_s - now.held_back_s),
            waiting_rows=now.waiting_rows,
            row_s=now.row_s,
            watermark_at=_watermark(now.watermark_us),
            skipped=now.skipped,
            report_age_s=self._age_s if is_running else None,
            operators=[self._counts(each.uid) for each in self._task.operators],
            state_reads=None if now.state_reads is None else _reads(now.state_reads),
        )

    def _part(self, seconds: float) -> float:
        return min(max(seconds / self._span_s, 0.0), 1.0) if self._span_s > 0 else 0.0

    def _rate(self, rows: int) -> float:
        """One that is held by a call gets slower while it does not report."""
        silent_s = self._age_s if self._age_s is not None and self._age_s >= HELD_S else 0.0
        return max(rows, 0) / (self._span_s + silent_s) if self._span_s > 0 else 0.0

    def _counts(self, uid: str) -> CountsDocument:
        rows_in, rows_out = self._now.counts.get(uid, (0, 0))
        in_before, out_before = self._before.counts.get(uid, (0, 0))
        return CountsDocument(
            uid=uid,
            rows_in=rows_in,
            rows_out=rows_out,
            rows_in_per_s=self._rate(rows_in - in_before),
            rows_out_per_s=self._rate(rows_out - out_before),
            hot_keys=self._hot_keys(uid),
            sides=dict(self._now.sides.get(uid, {})),
            late_rows=self._now.late.get(uid, 0),
        )

    def _hot_keys(self, uid: str) -> list[HotKeyDocument]:
        """Those of the head: the others of a chain get no rows of their own by key."""
        found = self._now.hot_keys if uid == self._task.operators[0].uid else ()
        return [HotKeyDocument(key=key, share=share) for key, share in found]

    def _emitted(self, metrics: TaskMetrics) -> int:
        """Rows that have left the task: to other tasks, and into sinks."""
        operators = self._task.operators
        read = {(operators[e.sender_operator].uid, e.side) for e in self._task.outputs}
        left = sum(_rows_out(metrics, *output) for output in read)
        sinks = (each.uid for each in operators if each.sink is not None)
        return left + sum(metrics.counts.get(uid, (0, 0))[0] for uid in sinks)


def _rows_out(metrics: TaskMetrics, uid: str, side: str) -> int:
    if side:
        return metrics.sides.get(uid, {}).get(side, 0)
    return metrics.counts.get(uid, (0, 0))[1]


def _watermark(time_us: int | None) -> float | None:
    return None if time_us is None or time_us >= END_US else time_us / 1_000_000


def _reads(reads: StateReads) -> StateReadsDocument:
    looks = reads.hits + reads.misses
    return StateReadsDocument(
        hits=reads.hits,
        misses=reads.misses,
        hit_ratio=reads.hits / looks if looks else None,
        single_reads=reads.single_reads,
        reads=reads.reads,
        read_s=reads.read_s,
        parked_s=reads.parked_s,
    )
