"""The page: a few files of this package, read once. They hold nothing of the job."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response

from mainstay.serve.refusals import RefusedError

PREFIX = "/page/"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


def _read() -> dict[str, tuple[bytes, str]]:
    """The files by their names: what is not among them cannot be asked for."""
    found = {}
    for file in files("mainstay.serve.page").iterdir():
        kind = TYPES.get(f".{file.name.rpartition('.')[2]}")
        if kind is not None and file.is_file():
            found[file.name] = (file.read_bytes(), kind)
    return found


def page_routes() -> APIRouter:
    """The page itself, and the files that it asks for below ``/page/``."""
    router, stored = APIRouter(include_in_schema=False), _read()

    def answer(name: str) -> Response:
        if name not in stored:
            raise RefusedError(404, "not_found", f"the page has no file {name!r}.")
        data, kind = stored[name]
        return Response(data, media_type=kind)

    @router.get("/")
    def index() -> Response:
        return answer("index.html")

    @router.get(PREFIX + "{name}")
    def file(name: str) -> Response:
        return answer(name)

    return router
