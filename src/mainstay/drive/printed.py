"""What workers print, on the way to the driver: lines in a bounded line, and their message.

Where more is printed than is taken, the oldest lines are left out and counted: what was printed
last says most. There is no lock, so that a thread that dies, or a fork, leaves nothing locked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MOST_WAITING = 1000
MOST_AT_ONCE = 100
EVERY_S = 0.1
"""A hundred lines every tenth of a second: more than people read, and no load for the driver."""

StreamName = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """One line, and who has printed it; ``operator`` is empty where no operator was at work."""

    at: float
    stream: StreamName
    text: str
    operator: str = ""
    subtask: int | None = None


@dataclass(frozen=True, slots=True)
class Printed:
    """Lines of a worker, and how many before them were left out."""

    attempt: int
    worker: int
    lines: tuple[PrintedLine, ...]
    left_out: int = 0


class WaitingLines:
    """Lines of one worker that wait to be sent. Any thread adds, one takes.

    ``worker`` is its number, once it has one.
    """

    def __init__(self, attempt: int, worker: int, tell: Callable[[Printed], None]) -> None:
        self._attempt = attempt
        self.worker = worker
        self._tell = tell
        self._lines: deque[PrintedLine] = deque(maxlen=MOST_WAITING)
        self._left_out = 0
        self._due = 0.0

    def add(self, line: PrintedLine) -> None:
        """Called by whatever prints."""
        if len(self._lines) == MOST_WAITING:
            self._left_out += 1
        self._lines.append(line)

    def send_if_due(self, now: float) -> None:
        """Called on every pass of the loop."""
        if self._lines and now >= self._due:
            self._due = now + EVERY_S
            self._send(MOST_AT_ONCE)

    def send_all(self) -> None:
        """The worker ends."""
        if self._lines:
            self._send(MOST_WAITING)

    def _send(self, most: int) -> None:
        left_out, self._left_out = self._left_out, 0
        lines = tuple(self._lines.popleft() for _ in range(min(most, len(self._lines))))
        self._tell(Printed(self._attempt, self.worker, lines, left_out))
