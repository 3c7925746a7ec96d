"""The routes that show a job: how it stands, its graph, its epochs, what has happened to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from mainstay.serve.documents import (
    AttemptDocument,
    EpochDetail,
    EpochDocument,
    FailureDocument,
    GraphDocument,
    JobDocument,
    RecoveryDocument,
    TasksDocument,
    TimelineEntry,
)
from mainstay.serve.events import Events
from mainstay.serve.output import OutputDocument
from mainstay.serve.refusals import RefusedError
from mainstay.serve.requests import LARGEST, EpochsQuery, OutputQuery
from mainstay.serve.view import JobView

Number = Annotated[int, Path(ge=0, le=LARGEST)]


def read_routes(view: JobView, events: Events) -> APIRouter:
    """All of them; FastAPI runs each in a thread, so that none holds up another."""
    router = APIRouter(tags=["job"])
    _add_now(router, view)
    _add_past(router, view)
    _add_output(router, view)
    _add_events(router, events)
    return router


def _add_now(router: APIRouter, view: JobView) -> None:
    @router.get("/job")
    def job() -> JobDocument:
        """The job at a glance, with a verdict in words."""
        return view.job()

    @router.get("/graph")
    def graph() -> GraphDocument:
        """Operators, edges and tasks."""
        return view.graph()

    @router.get("/tasks")
    def tasks() -> TasksDocument:
        """What each subtask has done, and how busy it is."""
        return view.tasks()


def _add_past(router: APIRouter, view: JobView) -> None:
    @router.get("/epochs")
    def epochs(wanted: Annotated[EpochsQuery, Query()]) -> list[EpochDocument]:
        """The newest epochs, oldest first; with `before`, those with a lower number."""
        return view.epochs(wanted.limit, wanted.before)

    @router.get("/epochs/{epoch}")
    def one_epoch(epoch: Number) -> EpochDetail:
        """An epoch, with what each subtask measured."""
        return view.epoch(epoch)

    @router.get("/attempts")
    def attempts() -> list[AttemptDocument]:
        """The attempts, oldest first."""
        return view.attempts()

    @router.get("/recoveries")
    def recoveries() -> list[RecoveryDocument]:
        """How attempts took over from those before them, and how long it took."""
        return view.recoveries()

    @router.get("/failures")
    def failures() -> list[FailureDocument]:
        """The failed attempts, with the author's traceback."""
        return view.failures()

    @router.get("/timeline")
    def timeline() -> list[TimelineEntry]:
        """Attempts, leaders, rescales, savepoints and failures in the order of time."""
        return view.timeline()


def _add_output(router: APIRouter, view: JobView) -> None:
    @router.get("/output")
    def output(wanted: Annotated[OutputQuery, Query()]) -> OutputDocument:
        """The last lines that functions have printed, with the operator that was at work."""
        return view.output(wanted.limit, wanted.attempt)


def _add_events(router: APIRouter, listeners: Events) -> None:
    # Not in the document: what is sent never ends, and a schema says nothing of such.
    @router.get("/events", include_in_schema=False)
    async def events() -> StreamingResponse:
        if listeners.is_full:
            raise RefusedError(503, "refused", "too many pages listen to this job. Close some.")
        return StreamingResponse(listeners.listen(), media_type="text/event-stream")
