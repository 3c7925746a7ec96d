"""The line that shows how a job is doing, where there is a terminal to show it on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from textwrap import TextWrapper
from typing import Protocol, TextIO

from mainstay.drive.streams import is_terminal
from mainstay.quantities import shown_size
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.status import EpochStatus, Problem
from mainstay.spelling import counted

SILENT_S = 5.0
"""How long an operator may emit nothing before the line says so."""
RATE_S = 5.0
"""The rate is that of the last seconds: workers report twice in a second, so less would jump."""
MOST_ROWS = 4
"""How many rows of the terminal are taken; the log has the rest of a long error."""
USUAL_WIDTH = 80


class Watched(Protocol):
    """What the line reads."""

    name: str

    @property
    def status(self) -> str: ...
    @property
    def leader(self) -> str: ...
    def snapshots(self) -> Sequence[EpochRecord]: ...
    def metrics(self) -> dict[tuple[str, int], TaskMetrics]: ...
    def problems(self) -> Sequence[Problem]: ...
    def silent(self) -> Sequence[Silent]: ...


class ProgressLine:
    """Rewrites one line of a terminal; anywhere else it writes nothing.

    What the job waits for goes on below it where it does not fit.
    """

    def __init__(self, job: Watched, out: TextIO | None) -> None:
        self._job = job
        self._out = out
        self._is_shown = is_terminal(out)
        self._seen: deque[tuple[float, int]] = deque()
        self._written = 0
        self._began: float | None = None

    def update(self, now: float, notices: Sequence[str] = ()) -> None:
        """Write the line again, below the notices that are new."""
        if not self._is_shown:
            return
        self._wipe(notices)
        rows = self.rows(now, _width(self._out))
        self._write("\n".join(rows))
        self._written = len(rows)

    def clear(self, notices: Sequence[str] = ()) -> None:
        """Make room for a line of others, below the notices that are new.

        The next update writes this one again below it.
        """
        if self._is_shown:
            self._wipe(notices)

    def _wipe(self, notices: Sequence[str]) -> None:
        """Write notices in the place of the line, and leave an empty one below them."""
        up = f"\x1b[{self._written - 1}A" if self._written > 1 else ""
        told = "".join(f"{notice}\n" for notice in notices)
        self._write((f"\r{up}\x1b[J" if up else "\r\x1b[2K") + told)
        self._written = 0

    def _write(self, text: str) -> None:
        """A terminal that has gone is written to no more; the job goes on."""
        if self._out is None or not self._is_shown:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._is_shown = False

    def text(self, now: float) -> str:
        """Status, rows that the sources emitted, rate, last epoch, what the job waits for."""
        return "  ".join(filter(None, [*self._figures(now), *self._waits(now)]))

    def rows(self, now: float, width: int) -> list[str]:
        """The same for a terminal: figures that do not fit are left out, reasons are wrapped."""
        *least, epoch = self._figures(now)
        pieces = (epoch, epoch.partition(" in ")[0])
        heads = ("  ".join([*least, *filter(None, [piece])]) for piece in pieces)
        head = next((text for text in heads if len(text) < width), "  ".join(least))
        waits = self._waits(now)
        if len(whole := "  ".join([head, *waits])) < width:
            return [whole]
        wrapper = TextWrapper(width - 1, initial_indent="  ", subsequent_indent="  ")
        below = [row for each in waits for row in wrapper.wrap(each)]
        if len(below) >= MOST_ROWS:
            below[MOST_ROWS - 2 :] = [f"{below[MOST_ROWS - 2][: width - 2]}…"]
        return [head[: width - 1], *below]

    def _figures(self, now: float) -> list[str]:
        rows = sum(each.rows for each in self._job.metrics().values() if each.is_source)
        complete = [
            record for record in self._job.snapshots() if record.status == EpochStatus.COMPLETE
        ]
        epoch = ""
        if complete:
            last = complete[-1]
            epoch = f"epoch {last.epoch} in {last.duration_s:.2f} s, {shown_size(last.size_bytes)}"
        status, rate = self._job.status, f"{self.rate(now, rows):,.0f} rows/s"
        # Only what runs has a rate; that of the last seconds before a failure would mislead.
        speed = [rate] if status == "running" else []
        led = f" ({self._job.leader} leads)" if status == "standby" and self._job.leader else ""
        return [f"{self._job.name}: {status}{led}", f"{counted(rows, 'row')} in", *speed, epoch]

    def rate(self, now: float, rows: int) -> float:
        """Over the last seconds; from the beginning again where an attempt counts from zero."""
        seen = self._seen
        if seen and rows < seen[-1][1]:
            seen.clear()
        seen.append((now, rows))
        while len(seen) > 2 and seen[1][0] <= now - RATE_S:
            seen.popleft()
        began, before = seen[0]
        return (rows - before) / (now - began) if now > began else 0.0

    def _waits(self, now: float) -> list[str]:
        return [*map(str, self._job.problems()), *self._silent(now)]

    def _silent(self, now: float) -> list[str]:
        """Operators that emit nothing, after some seconds. Whether they should is not known while
        the job runs; a filter is not even mentioned."""
        self._began = now if self._began is None else self._began
        if now - self._began < SILENT_S:
            return []
        return [each.figures for each in self._job.silent() if not each.may_be]

    def end(self) -> None:
        if self._written:
            self._write("\n")


def _width(out: TextIO | None) -> int:
    try:
        return os.get_terminal_size(-1 if out is None else out.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH  # nothing says how wide it is
