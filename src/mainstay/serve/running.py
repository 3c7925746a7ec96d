"""The view of a job that runs in this process, over its handle."""

from __future__ import annotations

import threading
import time
import weakref

import mainstay
from mainstay.drive.handle import JobHandle
from mainstay.errors import brief
from mainstay.inspect.answers import Answer
from mainstay.inspect.connection import is_live
from mainstay.masking import masked
from mainstay.runtime.coordinator.epochs import EpochRecord, PendingEpoch
from mainstay.runtime.status import EpochStatus, Problem
from mainstay.serve import past
from mainstay.serve.bottleneck import Bottleneck, bottleneck_of, held_workers
from mainstay.serve.committed import CommittedState
from mainstay.serve.documents import (
    AttemptDocument,
    EpochDetail,
    EpochDocument,
    FailureDocument,
    GraphDocument,
    HealthDocument,
    JobDocument,
    ProblemDocument,
    RecoveryDocument,
    TasksDocument,
    TimelineEntry,
)
from mainstay.serve.figures import figures_of
from mainstay.serve.health import health_of, role_of
from mainstay.serve.live import live_answers
from mainstay.serve.output import OutputDocument, output_of
from mainstay.serve.refusals import RefusedError
from mainstay.serve.requests import QueryRequest
from mainstay.serve.shape import graph_of, stored_graph
from mainstay.serve.verdict import Standing, verdict_of
from mainstay.snapshot.history import Ended, History

RECENT_EPOCHS = 10
"""How many epochs a verdict looks at."""


class RunningView(CommittedState):
    """Holds the handle weakly: the view must not keep a job that nobody has any more."""

    is_live = True

    def __init__(self, job: JobHandle, place: str) -> None:
        super().__init__(place, job.insight.hidden)
        self._handle = weakref.ref(job)

    @property
    def _job(self) -> JobHandle:
        job = self._handle()
        if job is None:
            raise RefusedError(409, "conflict", "the program has dropped the handle of this job.")
        return job

    # ------------------------------------------------------------ now

    def now(self) -> tuple[JobDocument, TasksDocument]:
        tasks = self.tasks()
        return self._document(tasks), tasks

    def job(self) -> JobDocument:
        return self._document(self.tasks())

    def _document(self, tasks: TasksDocument) -> JobDocument:
        job = self._job
        insight, spec = job.insight, job.insight.spec
        standing = self._standing(tasks)
        attempts, history = job.attempts(), self._history()
        begin = history.last_begin
        return JobDocument(
            at=standing.now,
            name=job.name,
            status=standing.status,
            status_since_at=standing.since_at,
            is_live=True,
            role=role_of(standing.status),
            parallelism=job.parallelism,
            asked_parallelism=job.asked_parallelism,
            max_parallelism=None if spec is None else spec.max_parallelism,
            leader=job.leader,
            attempt=attempts[-1].attempt if attempts else begin.attempt if begin else None,
            started_at=insight.started_at,
            snapshot_place=masked(self._place),
            version=mainstay.__version__,
            epoch=standing.epoch,
            last_epoch_at=standing.last_epoch_at,
            epoch_every_s=insight.every_s,
            rows_in=sum(each.rows for each in job.metrics().values() if each.is_source),
            rows_in_per_s=standing.rows_in_per_s,
            rows_out_per_s=self._rows_out_per_s(tasks),
            verdict=verdict_of(standing),
            problems=list(standing.problems),
        )

    def health(self) -> HealthDocument:
        return health_of(self._standing(self.tasks()))

    def _standing(self, tasks: TasksDocument) -> Standing:
        job, insight = self._job, self._job.insight
        status, error, attempts = job.status, insight.error, job.attempts()
        complete = [r for r in job.snapshots() if r.status == EpochStatus.COMPLETE]
        last = complete[-1] if complete else None
        latest = self._history().latest_epoch
        numbers = [each.epoch for each in (last, latest) if each is not None]
        return Standing(
            status=status,
            now=time.time(),
            since_at=insight.status_since_at,
            leader=job.leader,
            error="" if error is None else masked(brief(error)),
            attempt_ended=masked(attempts[-1].reason) if attempts else "",
            epoch=max(numbers, default=None),
            last_epoch_at=None
            if last is None or not last.triggered_at
            else last.triggered_at + last.duration_s,
            every_s=insight.every_s,
            rows_in_per_s=self._rows_in_per_s(tasks),
            problems=[_problem(each) for each in job.problems()],
            epochs=self.epochs(RECENT_EPOCHS),
            held=held_workers(tasks.tasks),
            bottleneck=self._bottleneck(tasks) if status == "running" else None,
        )

    def _bottleneck(self, tasks: TasksDocument) -> Bottleneck | None:
        is_one_thread = self._job.runs_functions
        return bottleneck_of(tasks.tasks, self.graph(), is_one_thread=is_one_thread)

    def graph(self) -> GraphDocument:
        spec = self._job.insight.spec
        return stored_graph(None, None) if spec is None else graph_of(spec)

    def tasks(self) -> TasksDocument:
        job, insight = self._job, self._job.insight
        spec, attempts = insight.spec, job.attempts()
        figures = (
            []
            if spec is None
            else figures_of(
                spec,
                job.metrics(),
                insight.earlier_metrics(),
                insight.report_ages(),
                is_running=job.status == "running",
            )
        )
        attempt = attempts[-1].attempt if attempts else None
        return TasksDocument(is_live=True, attempt=attempt, tasks=figures)

    def _rows_in_per_s(self, tasks: TasksDocument) -> float:
        spec = self._job.insight.spec
        sources = {task.id for task in spec.tasks if task.is_source} if spec else set()
        return sum(each.rows_per_s for each in tasks.tasks if each.task in sources)

    def _rows_out_per_s(self, tasks: TasksDocument) -> float:
        spec = self._job.insight.spec
        sinks = {each.uid for _, each in spec.operators() if each.sink} if spec else set()
        subtasks = (each for task in tasks.tasks for each in task.subtasks)
        counts = (each for subtask in subtasks for each in subtask.operators)
        return sum(each.rows_in_per_s for each in counts if each.uid in sinks)

    def _history(self) -> History:
        return self._job.insight.history or History()

    # ------------------------------------------------------------ what has happened

    def _known(self) -> list[EpochRecord | PendingEpoch]:
        """The epochs that have ended, and those under way."""
        # Before those that have ended: one that ends between the two looks is among these then.
        under_way = self._job.insight.pending()
        ended = list(self._job.snapshots())
        known = {each.epoch for each in ended}
        return [*ended, *(each for each in under_way if each.epoch not in known)]

    def kept_epochs(self) -> list[int]:
        retain = self._job.insight.retain
        return [each.epoch for each in self._history().lineage_epochs()[-retain:]]

    def epochs(self, limit: int, before: int | None = None) -> list[EpochDocument]:
        kept = frozenset(self.kept_epochs())
        return [
            past.brief_of(each, kept)
            if isinstance(each, EpochRecord)
            else past.brief(self._pending(each))
            for each in past.newest(self._known(), limit, before)
        ]

    def epoch(self, number: int) -> EpochDetail:
        found = past.found_epoch(self._known(), number)
        if isinstance(found, EpochRecord):
            return past.epoch_of(found, self.kept_epochs())
        return self._pending(found)

    def _pending(self, pending: PendingEpoch) -> EpochDetail:
        return past.pending_epoch(pending, self._job.attempts()[-1].attempt, time.time())

    def attempts(self) -> list[AttemptDocument]:
        return past.attempts_of(self._history(), self._ended(), list(self._job.attempts()))

    def _ended(self) -> Ended | None:
        return past.end_of(self._history(), self._job.insight.status_since_at)

    def recoveries(self) -> list[RecoveryDocument]:
        return [past.recovery_of(each) for each in self._job.recoveries()]

    def failures(self) -> list[FailureDocument]:
        return [past.failure_of(each) for each in self._job.failures()]

    def timeline(self) -> list[TimelineEntry]:
        times: dict[int, float] = {
            each.epoch: each.triggered_at + each.duration_s
            for each in self._job.snapshots()
            if each.triggered_at > 0
        }
        parts = (self.attempts(), self.recoveries(), self.failures())
        return past.timeline_of(self._history(), self._ended(), *parts, times)

    def output(self, limit: int, attempt: int | None = None) -> OutputDocument:
        return output_of(self._job.insight.output, limit, attempt)

    # ------------------------------------------------------------ state

    def query(self, request: QueryRequest, most: int) -> dict[str, Answer]:
        if is_live(request.at, request.epoch, request.after):
            return live_answers(self._job, request, most)
        return super().query(request, most)

    # ------------------------------------------------------------ actions

    def savepoint(self, path: str, timeout_s: float) -> str:
        return self._job.savepoint(path, timeout_s)

    def stop(self, path: str | None, *, drain: bool, timeout_s: float) -> str | None:
        return self._job.stop(path, drain=drain, timeout=timeout_s)

    def rescale(self, parallelism: int, timeout_s: float) -> None:
        self._job.rescale(parallelism, timeout_s)

    def cancel(self, timeout_s: float) -> None:
        job = self._job
        if job.is_over:
            raise RefusedError(409, "conflict", f"job {job.name!r} is over ({job.status}) already.")
        # A call of the author's code may hold it up, and the request is not to wait for that.
        canceller = threading.Thread(target=job.cancel, name="mainstay-cancel", daemon=True)
        canceller.start()
        canceller.join(timeout_s)
        if canceller.is_alive():
            raise TimeoutError(f"job {job.name!r} has not ended after {timeout_s:g} s; it will.")


def _problem(problem: Problem) -> ProblemDocument:
    return ProblemDocument(
        subject=problem.subject,
        what=problem.what,
        error=masked(problem.error),
        waited_s=problem.waited_s,
        text=masked(str(problem)),
    )
