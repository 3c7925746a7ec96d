"""The backlog of a sink's writer: its work in the background, one piece at a time and in order.

A piece that fails stays the first in line and is tried again after a while, or as soon as an
epoch asks for it, so nothing overtakes it and nothing is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.runtime.ports import Background, Clock
from mainstay.runtime.retry import Retry

MAX_WAITING = 2
"""Pieces that may wait behind the current one before no more rows are taken."""


@dataclass(frozen=True, slots=True)
class _Piece:
    work: Callable[[], Any]
    done: Callable[[Any], None]


class Backlog:
    """The work of one writer. ``settled`` is called after every piece that is done."""

    def __init__(self, settled: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self.retry = Retry()
        self.added = 0
        self.done = 0
        self._settled = settled
        self._failed = failed
        self._pieces: deque[_Piece] = deque()
        self._is_busy = False

    def open(self, background: Background, clock: Clock) -> None:
        """Called once, before anything is added."""
        self._background = background
        self._clock = clock

    @property
    def is_full(self) -> bool:
        return len(self._pieces) > MAX_WAITING

    def add(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have ``work`` done after everything before it; ``done`` gets what it returned."""
        self.added += 1
        self._pieces.append(_Piece(work, done))
        self._next()

    def hurry(self) -> None:
        """Do not wait any longer with what has failed."""
        self.retry.at = None
        self._next()

    def tick(self, now: float) -> bool:
        if not self.retry.is_due(now):
            return False
        self._next()
        return True

    def _next(self) -> None:
        if self._is_busy or self.retry.is_waiting or not self._pieces:
            return
        self._is_busy = True
        piece = self._pieces[0]
        self.retry.began(self._clock.monotonic())

        def done(result: Any) -> None:
            self._is_busy = False
            self.retry.succeeded()
            self._pieces.popleft()
            self.done += 1
            piece.done(result)
            self._settled()
            self._next()

        self._background.submit(piece.work, done, self._on_failure)

    def _on_failure(self, error: Exception) -> None:
        self._is_busy = False
        self.retry.failed(self._clock.monotonic(), error)
        self._failed(error)
