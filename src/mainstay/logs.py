"""Logs for machines: one JSON object a line, with the job, attempt, epoch, operator and subtask.

::

    mainstay.logs.configure("json")        # or MAINSTAY_LOG_FORMAT=json in the environment

It is about all that the program logs by ``logging``, its own records included. A record that was
logged outside a job, or outside an operator, has null in those fields.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, TextIO

from mainstay.drive.at_work import at_work
from mainstay.errors import GraphError
from mainstay.spelling import did_you_mean

VARIABLE = "MAINSTAY_LOG_FORMAT"
FORMATS = ("text", "json")
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS = ("job", "attempt", "epoch", "operator", "subtask")
MORE_FIELDS = ("worker", "stream")
"""Of lines that workers have printed."""

__all__ = ["JsonFormatter", "configure"]

Place = Callable[[], Mapping[str, Any]]
_place: ContextVar[Place | None] = ContextVar("mainstay_place", default=None)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; for a handler of one's own."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        document: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_where(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = self.formatStack(record.stack_info)
        return json.dumps(document, default=str, ensure_ascii=False)


def _where(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that a record brings, and what is known of the thread that logs it."""
    place, who = _place.get(), at_work()
    known: dict[str, Any] = {} if place is None else dict(place())
    if who is not None:
        known.update(who._asdict())
    own = {name: vars(record)[name] for name in (*FIELDS, *MORE_FIELDS) if name in vars(record)}
    return {**dict.fromkeys(FIELDS), **known, **own}


def configure(
    format: str = "text", *, level: int | str = logging.INFO, stream: TextIO | None = None
) -> None:
    """Have the program log as ``"text"`` or ``"json"``, to standard error unless told otherwise.

    Handlers that the root logger has, and that write to a stream or a file, keep their place and
    get the format; where there are none, one is added. Python's warnings become records as well.
    """
    if format not in FORMATS:
        raise GraphError(
            f"the log format {format!r} is unknown; choose text or json."
            f"{did_you_mean(format, FORMATS)}"
        )
    root = logging.getLogger()
    formatter = JsonFormatter() if format == "json" else logging.Formatter(TEXT)
    handlers = [h for h in root.handlers if type(h) in (logging.StreamHandler, logging.FileHandler)]
    if stream is not None or not handlers:
        handlers = [logging.StreamHandler(stream)]
        root.addHandler(handlers[0])
    for handler in handlers:
        handler.setFormatter(formatter)
    root.setLevel(level)
    logging.captureWarnings(True)


def configure_from_environment() -> None:
    """What ``MAINSTAY_LOG_FORMAT`` asks for, once in a process; nothing where it is not set."""
    format = os.environ.get(VARIABLE, "").strip()
    if not format or _asked:
        return
    try:
        configure(format)
    except GraphError as error:
        raise GraphError(f"{VARIABLE}: {error}") from None
    _asked.append(format)


_asked: list[str] = []


@contextmanager
def logging_for(place: Place) -> Iterator[None]:
    """What this thread logs meanwhile is about a job: ``place`` says its name and how far it is."""
    before = _place.set(place)
    try:
        yield
    finally:
        _place.reset(before)
