"""What the workers of a job have printed: the last lines of each attempt, and on the terminal."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mainstay.drive.printed import Printed, PrintedLine
from mainstay.drive.streams import tell

KEPT_LINES = 1000
KEPT_ATTEMPTS = 3

_log = logging.getLogger("mainstay.output")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line that a worker has printed."""

    attempt: int
    worker: int
    line: PrintedLine

    @property
    def prefix(self) -> str:
        line = self.line
        return f"{line.operator} {line.subtask}" if line.operator else f"worker {self.worker}"


@dataclass(slots=True)
class _OfAttempt:
    lines: deque[OutputLine] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    left_out: int = 0


class OutputRecord:
    """The output of one job in this process. Any thread may ask.

    ``before_showing`` is called before a line is written to the terminal.
    """

    def __init__(self, job: str, before_showing: Callable[[], None]) -> None:
        self._job = job
        self._before_showing = before_showing
        self._attempts: dict[int, _OfAttempt] = {}
        self._lock = threading.Lock()

    def printed(self, message: Printed) -> None:
        """A worker elsewhere has printed: keep it, and show it here."""
        if message.left_out:
            self._of(message.attempt).left_out += message.left_out
            text = f"… {message.left_out:,} lines left out"
            at = message.lines[0].at if message.lines else 0.0
            note = PrintedLine(at, "stderr", text)
            self._show(OutputLine(message.attempt, message.worker, note))
        for line in message.lines:
            self._show(self.keep(message.attempt, message.worker, line))

    def keep(self, attempt: int, worker: int, line: PrintedLine) -> OutputLine:
        """Keep a line that can be seen already."""
        found = OutputLine(attempt, worker, line)
        own = self._of(attempt)
        with self._lock:
            own.left_out += len(own.lines) == KEPT_LINES
            own.lines.append(found)
        return found

    def lines(self, attempt: int | None = None) -> tuple[list[OutputLine], int]:
        """The last lines, oldest first, and how many were left out; of all attempts or of one."""
        with self._lock:
            wanted = [
                each
                for number, each in self._attempts.items()
                if attempt is None or number == attempt
            ]
            return [line for each in wanted for line in each.lines], sum(
                each.left_out for each in wanted
            )

    def _of(self, attempt: int) -> _OfAttempt:
        with self._lock:
            found = self._attempts.setdefault(attempt, _OfAttempt())
            for old in sorted(self._attempts)[:-KEPT_ATTEMPTS]:
                del self._attempts[old]
            return found

    def _show(self, found: OutputLine) -> None:
        """To the log where the program shows such, and otherwise to the terminal."""
        line = found.line
        if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
            fields = {
                "job": self._job,
                "attempt": found.attempt,
                "worker": found.worker,
                "operator": line.operator or None,
                "subtask": line.subtask,
                "stream": line.stream,
            }
            _log.info("[%s] %s", found.prefix, line.text, extra=fields)
            return
        self._before_showing()
        tell(f"[{found.prefix}] {line.text}")
