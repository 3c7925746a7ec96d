"""``mainstay savepoint``, ``stop``, ``rescale`` and ``cancel``: ask a running job for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mainstay.control.progress import watched
from mainstay.control.sight import stored_end
from mainstay.control.target import Target
from mainstay.drive.exit_codes import DONE, TRY_AGAIN
from mainstay.errors import MainstayError, UnreachableError
from mainstay.snapshot.storage import absolute

LOOK_S = 3.0
ENDED = {"stop": ("stopped", "finished"), "cancel": ("cancelled",)}
"""How a job has ended when it did what it was asked for, and its process went with it."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a job is asked for: the route, what is sent, and what is said meanwhile."""

    route: str
    doing: str
    body: dict[str, Any]


def savepoint(path: str) -> Action:
    return Action("savepoint", "writing the savepoint", {"path": _placed(path)})


def stop(path: str | None, *, drain: bool) -> Action:
    body = {"path": None if path is None else _placed(path), "drain": drain}
    return Action("stop", "stopping the job", body)


def rescale(parallelism: int) -> Action:
    return Action("rescale", f"going to parallelism {parallelism}", {"parallelism": parallelism})


def cancel() -> Action:
    return Action("cancel", "cancelling the job", {})


def run_action(target: Target, action: Action, timeout_s: float, *, as_json: bool) -> int:
    """Ask, wait, print what came of it; returns the exit code."""
    place = _place(target)
    doing = f"{target.shown}: {action.doing}"
    try:
        found = watched(
            doing,
            lambda: _asked(target, action, place, timeout_s),
            lambda: _news(target),
        )
    except UnreachableError as error:
        raise target.explained(error) from error
    if as_json:
        print(json.dumps({"job": target.shown, **found}, indent=1), flush=True)
    else:
        print(_sentence(target, found), flush=True)
    return DONE if found["is_done"] else TRY_AGAIN


def _asked(target: Target, action: Action, place: str | None, timeout_s: float) -> dict[str, Any]:
    try:
        found: dict[str, Any] = target.service.post(
            f"/{action.route}", action.body, timeout_s
        ).document()
        return found
    except UnreachableError:
        # A program that ends with its job may be gone before it has answered.
        how = None if place is None else stored_end(place)
        if how not in ENDED.get(action.route, ()):
            raise
        text = f"the job is {how}."
        return {"is_done": True, "text": text, "status": how, "path": action.body.get("path")}


def _place(target: Target) -> str | None:
    """Where its snapshots are. Asks the job, so that one that is gone is seen at once."""
    try:
        found = target.service.get("/job", LOOK_S)
    except UnreachableError as error:
        raise target.explained(error) from error
    return target.entry.place if target.entry is not None else str(found["snapshot_place"])


def _news(target: Target) -> str:
    try:
        found = target.service.get("/job", LOOK_S)
    except MainstayError:
        return ""
    epoch = "" if found["epoch"] is None else f", epoch {found['epoch']}"
    return f"({found['status']}{epoch})"


def _sentence(target: Target, found: dict[str, Any]) -> str:
    path = f" {found['path']}" if found.get("path") else ""
    return f"{target.shown}: {found['text']}{path}"


def _placed(path: str) -> str:
    """Absolute, because the job's program was started elsewhere; a URL stays one."""
    return absolute(path)
