"""The routes that ask a job for something: a savepoint, a stop, another parallelism, its end.

Each waits for the answer for a while. What is not done by then goes on, and the status is 202.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from mainstay.serve.documents import DoneDocument
from mainstay.serve.refusals import RefusedError
from mainstay.serve.requests import (
    CancelRequest,
    RescaleRequest,
    SavepointRequest,
    StopRequest,
)
from mainstay.serve.view import JobView

_ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": DoneDocument, "description": "It is under way."}
}


def action_routes(view: JobView) -> APIRouter:
    """All of them."""
    router = APIRouter(tags=["actions"])

    @router.post("/savepoint", responses=_ACCEPTED)
    def savepoint(request: SavepointRequest, response: Response) -> DoneDocument:
        """Write a savepoint; the job goes on meanwhile."""
        ask = partial(view.savepoint, _place(request.path), request.timeout_s)
        return _done(view, response, ask, "the savepoint is written", request.path)

    @router.post("/stop", responses=_ACCEPTED)
    def stop(request: StopRequest, response: Response) -> DoneDocument:
        """Bring the job to a standstill, with a savepoint where there is a path."""
        path = None if request.path is None else _place(request.path)
        ask = partial(view.stop, path, drain=request.drain, timeout_s=request.timeout_s)
        return _done(view, response, ask, "the job is stopped", path)

    @router.post("/rescale", responses=_ACCEPTED)
    def rescale(request: RescaleRequest, response: Response) -> DoneDocument:
        """Go on at another parallelism."""
        ask = partial(view.rescale, request.parallelism, request.timeout_s)
        return _done(view, response, ask, f"the job runs at parallelism {request.parallelism}")

    @router.post("/cancel", responses=_ACCEPTED)
    def cancel(request: CancelRequest, response: Response) -> DoneDocument:
        """End the job without finishing it; the last complete epoch can be restored."""
        ask = partial(view.cancel, request.timeout_s)
        return _done(view, response, ask, "the job is cancelled")

    return router


def _place(path: str) -> str:
    """A place that means the same to who asks and to the driver."""
    if "://" in path or os.path.isabs(path):
        return path
    raise RefusedError(
        400,
        "bad_request",
        f"the path {path!r} is relative. Give an absolute path, or a URL of an object store.",
    )


def _done(
    view: JobView,
    response: Response,
    ask: Callable[[], object],
    text: str,
    path: str | None = None,
) -> DoneDocument:
    try:
        ask()
    except TimeoutError as error:
        response.status_code = 202
        text = f"it is under way: {error}"
        return DoneDocument(is_done=False, text=text, status=view.job().status, path=path)
    return DoneDocument(is_done=True, text=f"{text}.", status=view.job().status, path=path)
