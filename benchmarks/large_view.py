"""A view of a large job that does not run: a real plan, made-up figures, no storage."""

from __future__ import annotations

import time
from typing import Any

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.messages import TaskMetrics
from mainstay.serve.documents import (
    EpochDetail,
    EpochDocument,
    GraphDocument,
    HealthDocument,
    JobDocument,
    TasksDocument,
)
from mainstay.serve.figures import figures_of
from mainstay.serve.past import brief
from mainstay.serve.shape import graph_of
from mainstay.serve.verdict import Standing, verdict_of

BUSIEST = 17
EPOCHS = 200
EVERY_S = 10.0


class LargeView:
    """Every look at it finds other figures; one subtask of each task is busier than all others."""

    is_live = True

    def __init__(self, operators: int, subtasks: int) -> None:
        env = ms.Environment(spark="embedded", parallelism=subtasks)
        stream: Any = env.source(Rows("key long", [(1,)]), uid="source")
        for number in range(operators - 2):
            keyed = stream.key_by("key")
            stream = keyed.reduce(lambda a, b: b, uid=f"step-{number + 1}")
        stream.sink(Memory(), uid="sink")
        self._spec = env.plan()
        self._subtasks = [(task.id, number) for task, number in self._spec.subtasks()]
        self._operators = {each.id: [op.uid for op in each.operators] for each in self._spec.tasks}
        self._begun = time.time()
        self._looks = 0

    def now(self) -> tuple[JobDocument, TasksDocument]:
        tasks = self.tasks()
        return self._job(tasks), tasks

    def job(self) -> JobDocument:
        return self.now()[0]

    def tasks(self) -> TasksDocument:
        self._looks += 1
        now = {each: self._metrics(*each, self._looks) for each in self._subtasks}
        before = {each: self._metrics(*each, self._looks - 5) for each in self._subtasks}
        ages = dict.fromkeys(now, 0.3)
        figures = figures_of(self._spec, now, before, ages, is_running=True)
        return TasksDocument(is_live=True, attempt=1, tasks=figures)

    def _metrics(self, task: str, number: int, look: int) -> TaskMetrics:
        part = 0.97 if number == BUSIEST else 0.15 + (number * 7 + look * 3) % 40 / 100
        uids = dict.fromkeys(self._operators[task], (look * 1000 + number, look * 990))
        return TaskMetrics(
            rows=1_000_000 + look * 1000 + number * 13,
            waiting_rows=(look * 31 + number) % 500,
            row_s=0.00002,
            counts=uids,
            lasted_s=1000.0 + look,
            busy_s=100.0 + look * part,
            held_back_s=50.0 + look * 0.02,
        )

    def _job(self, tasks: TasksDocument) -> JobDocument:
        now = time.time()
        rate = sum(each.rows_per_s for each in tasks.tasks[:1])
        standing = Standing(
            "running",
            now,
            self._begun,
            epoch=self._last(),
            last_epoch_at=now - 1,
            every_s=EVERY_S,
            rows_in_per_s=rate,
        )
        return JobDocument(
            at=now,
            name="large",
            status="running",
            status_since_at=self._begun,
            is_live=True,
            role="leader",
            parallelism=64,
            asked_parallelism=None,
            max_parallelism=128,
            leader="-",
            attempt=1,
            started_at=self._begun,
            snapshot_place="/snapshots/large",
            version=ms.__version__,
            epoch=self.kept_epochs()[-1],
            last_epoch_at=now - 1,
            epoch_every_s=EVERY_S,
            rows_in=tasks.tasks[0].rows,
            rows_in_per_s=rate,
            rows_out_per_s=rate,
            verdict=verdict_of(standing),
        )

    def graph(self) -> GraphDocument:
        return graph_of(self._spec)

    def _epoch(self, number: int) -> EpochDetail:
        return EpochDetail(
            epoch=number,
            attempt=1,
            status="complete",
            begun_at=self._begun - (EPOCHS - number) * EVERY_S,
            duration_s=0.2 + number * 37 % 50 / 100,
            size_bytes=1_000_000 + number * 1000,
            in_flight_rows=0,
            is_unaligned=False,
            cause="",
            is_kept=number in self.kept_epochs(),
        )

    def epochs(self, limit: int, before: int | None = None) -> list[EpochDocument]:
        last = self._last() if before is None else before - 1
        return [brief(self._epoch(each)) for each in range(max(1, last - limit + 1), last + 1)]

    def _last(self) -> int:
        return EPOCHS + int((time.time() - self._begun) / EVERY_S)

    def kept_epochs(self) -> list[int]:
        return list(range(self._last() - 4, self._last() + 1))

    def epoch(self, number: int) -> EpochDetail:
        return self._epoch(number)

    def health(self) -> HealthDocument:
        return HealthDocument(is_ready=True, role="leader", reason="")

    def nothing(self, *_: Any, **__: Any) -> list[Any]:
        """Nothing has happened to it, and it has no state."""
        return []

    attempts = recoveries = failures = timeline = states = nothing
