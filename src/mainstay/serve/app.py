"""The application: all routes over one view, errors in one form, and the guard before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import mainstay
from mainstay.serve.action_routes import action_routes
from mainstay.serve.documents import ErrorDocument, HealthDocument
from mainstay.serve.events import Events
from mainstay.serve.metrics import exposition
from mainstay.serve.page_files import PREFIX, page_routes
from mainstay.serve.read_routes import read_routes
from mainstay.serve.refusals import Kind, RefusedError, document_of, refusal_of
from mainstay.serve.security import Guard, Names
from mainstay.serve.state_routes import state_routes
from mainstay.serve.view import JobView

API = "/api/v1"
_OPEN: dict[str, Any] = {"security": []}
_KINDS: dict[int, Kind] = {404: "not_found", 405: "bad_request"}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorDocument, "description": "The request is wrong."},
    401: {"model": ErrorDocument, "description": "The token is missing or wrong."},
    404: {"model": ErrorDocument, "description": "There is no such thing; the error says which."},
    409: {"model": ErrorDocument, "description": "The job cannot do that now."},
    504: {"model": ErrorDocument, "description": "There was no answer in time."},
}


def application(
    view: JobView, events: Events, token: str, host: str, hosts: Sequence[str] = ()
) -> ASGIApp:
    """Serves one job to those who have the token; who gives ``events`` can end them."""
    return Guard(routed(view, events), token, Names(host, hosts), PREFIX)


def routed(view: JobView, events: Events) -> FastAPI:
    """All routes, without the guard. Their document is the same for every view."""
    app = FastAPI(
        title="Mainstay",
        version=mainstay.__version__,
        description=(
            "One job. Every request carries `Authorization: Bearer TOKEN`. Times are seconds since "
            "1970."
        ),
        docs_url=None,
        redoc_url=None,
        # Nothing is sent elsewhere for the path with another slash.
        redirect_slashes=False,
    )
    for routes in (read_routes(view, events), state_routes(view), action_routes(view)):
        app.include_router(routes, prefix=API, responses=_ERRORS)
    app.include_router(_health_routes(view))
    app.include_router(_metric_routes(view))
    app.include_router(page_routes())
    _add_errors(app)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _health_routes(view: JobView) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", openapi_extra=_OPEN)
    def healthz() -> dict[str, str]:
        """The process is alive and answers."""
        return {"status": "alive"}

    @router.get("/readyz", responses={503: {"model": HealthDocument}}, openapi_extra=_OPEN)
    def readyz(response: Response) -> HealthDocument:
        """Whether the job is led here, runs, and takes epochs; 503 and the reason if not."""
        health = view.health()
        response.status_code = 200 if health.is_ready else 503
        return health

    return router


def _metric_routes(view: JobView) -> APIRouter:
    router, shown = APIRouter(include_in_schema=False), exposition(view)

    @router.get("/metrics")
    def metrics(request: Request) -> Response:
        data, kind = shown(request.headers.get("accept", ""))
        return Response(data, media_type=kind)

    return router


# ---------------------------------------------------------------- errors


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        said = _not_json(request) or _what_is_wrong(error)
        return _answer(RefusedError(400, "bad_request", said, "GraphError"))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        kind = _KINDS.get(error.status_code, "bad_request")
        text = f"{request.method} {request.url.path}: {error.detail}. /openapi.json has the routes."
        answer = _answer(RefusedError(error.status_code, kind, text))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return _answer(refusal_of(error))

    for known in (RefusedError, mainstay.errors.MainstayError, TimeoutError):
        # Those that are not listed by their class are raised again when they are answered.
        app.add_exception_handler(known, failed)


def _answer(refusal: RefusedError) -> JSONResponse:
    return JSONResponse(document_of(refusal).model_dump(), status_code=refusal.status)


def _not_json(request: Request) -> str:
    """What is said of a body that was sent as something else, as ``curl -d`` does."""
    kind = request.headers.get("content-type", "")
    if request.method != "POST" or "json" in kind.lower():
        return ""
    sent = f"as {kind!r}" if kind else "without a type"
    return f"the body was sent {sent}. Send the header Content-Type: application/json with it."


def _what_is_wrong(error: RequestValidationError) -> str:
    found = []
    for each in error.errors():
        place = ".".join(str(part) for part in each["loc"] if part != "body")
        found.append(f"{place}: {each['msg']}" if place else str(each["msg"]))
    return f"the request is wrong: {'; '.join(found)}. /openapi.json says what is expected."


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document. What is wrong with a request is answered with 400, and not 422."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
