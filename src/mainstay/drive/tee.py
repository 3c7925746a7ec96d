"""A tee: what is printed goes where it went, and its lines are heard as well.

It stands in the place of ``sys.stdout`` and ``sys.stderr`` while somebody listens, to all threads
or to one. Others may put streams of their own in its place meanwhile, as tests do: theirs stay.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mainstay.drive.at_work import at_work
from mainstay.drive.printed import PrintedLine, StreamName

MOST_LETTERS = 2000
"""A longer line is cut."""
NAMES: tuple[StreamName, ...] = ("stdout", "stderr")

Hear = Callable[[PrintedLine], None]


@dataclass(frozen=True, eq=False)
class Listener:
    """Who hears, of which thread (None: of all), and whether lines are printed as well."""

    hear: Hear
    thread: int | None
    is_printed: bool
    process: int


_listeners: list[Listener] = []
_changing = threading.Lock()


class Tee:
    """Stands for a stream; all but writing is the stream's own."""

    def __init__(self, stream: Any, name: StreamName) -> None:
        self.wrapped = stream
        self._name = name
        self._begun: dict[int, str] = {}
        """By thread, what was written of a line that has no end yet."""

    def write(self, text: str) -> int:
        listener = _listener()
        if listener is None or listener.is_printed:
            self.wrapped.write(text)
        if listener is not None and isinstance(text, str):
            self._hear(listener, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _hear(self, listener: Listener, text: str) -> None:
        thread = threading.get_ident()
        *whole, rest = (self._begun.pop(thread, "") + text).split("\n")
        for line in whole:
            listener.hear(self._line(line))
        if rest:
            # Of more than is shown nothing is kept, however long the line may get.
            self._begun[thread] = rest[: MOST_LETTERS + 1]

    def _line(self, text: str) -> PrintedLine:
        who = at_work()
        whose = ("", None) if who is None else (who.operator, who.subtask)
        cut = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
        return PrintedLine(time.time(), self._name, cut.rstrip("\r"), *whose)

    def end(self, listener: Listener) -> None:
        """Lines that have no end yet have one now."""
        for thread in list(self._begun):
            if listener.thread in (None, thread):
                listener.hear(self._line(self._begun.pop(thread, "")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


def _listener() -> Listener | None:
    """Who hears this thread. A process that was forked prints for itself."""
    thread = threading.get_ident()
    for each in _listeners:
        if each.thread in (None, thread):
            return each if each.process == os.getpid() else None
    return None


@contextmanager
def listening(hear: Hear, *, to_all: bool, is_printed: bool = True) -> Iterator[None]:
    """Have what is printed meanwhile heard: by this thread, or by all of this process."""
    thread = None if to_all else threading.get_ident()
    listener = Listener(hear, thread, is_printed, os.getpid())
    with _changing:
        _listeners.append(listener)
        for name in NAMES:
            stream = getattr(sys, name)
            if stream is not None and not isinstance(stream, Tee):
                setattr(sys, name, Tee(stream, name))
    try:
        yield
    finally:
        _leave(listener)


def end_lines() -> None:
    """Have what was printed without an end of line heard, because this process is about to end."""
    for listener in list(_listeners):
        _end_lines(listener)


def _end_lines(listener: Listener) -> None:
    for name in NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, Tee):
            stream.end(listener)


def _leave(listener: Listener) -> None:
    with _changing:
        _end_lines(listener)
        _listeners.remove(listener)
        for name in NAMES:
            stream = getattr(sys, name)
            if isinstance(stream, Tee) and not _listeners:
                setattr(sys, name, stream.wrapped)
