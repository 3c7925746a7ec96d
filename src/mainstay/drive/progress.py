"""The line that shows how a job is doing, where there is a terminal to show it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TextIO

from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.slowness import Silent
from mainstay.runtime.status import Problem

SILENT_S = 5.0
"""How long an operator may emit nothing before the line says so."""


class Watched(Protocol):
    """What the line reads."""

    name: str

    @property
    def status(self) -> str: ...
    def snapshots(self) -> Sequence[EpochRecord]: ...
    def metrics(self) -> dict[tuple[str, int], TaskMetrics]: ...
    def problems(self) -> Sequence[Problem]: ...
    def silent(self) -> Sequence[Silent]: ...


class ProgressLine:
    """Rewrites one line of a terminal; anywhere else it writes nothing."""

    def __init__(self, job: Watched, out: TextIO) -> None:
        self._job = job
        self._out = out
        self._is_shown = out.isatty()
        self._rows = 0
        self._at: float | None = None
        self._began: float | None = None

    def update(self, now: float, notices: Sequence[str] = ()) -> None:
        """Write the line again, below the notices that are new."""
        if not self._is_shown:
            return
        for notice in notices:
            self._out.write(f"\r\x1b[2K{notice}\n")
        self._out.write(f"\r\x1b[2K{self.text(now)}")
        self._out.flush()

    def clear(self) -> None:
        """Make room for a line of others; the next update writes this one again below it."""
        if self._is_shown:
            self._out.write("\r\x1b[2K")
            self._out.flush()

    def text(self, now: float) -> str:
        """Status, rows that the sources emitted, rate, last epoch, what the job waits for."""
        rows = sum(each.rows for each in self._job.metrics().values() if each.is_source)
        rate = 0.0
        if self._at is not None and now > self._at:
            rate = max(0.0, (rows - self._rows) / (now - self._at))
        self._rows, self._at = rows, now
        parts = [
            f"{self._job.name}: {self._job.status}",
            f"{rows:,} rows in",
            f"{rate:,.0f} rows/s",
        ]
        complete = [record for record in self._job.snapshots() if record.status == "complete"]
        if complete:
            last = complete[-1]
            parts.append(
                f"epoch {last.epoch} in {last.duration_s:.2f} s, {last.size_bytes:,} bytes"
            )
        return "  ".join([*parts, *map(str, self._job.problems()), *self._silent(now)])

    def _silent(self, now: float) -> list[str]:
        """Operators that emit nothing, after some seconds. Whether they should is not known while
        the job runs; a filter is not even mentioned."""
        self._began = now if self._began is None else self._began
        if now - self._began < SILENT_S:
            return []
        return [each.figures for each in self._job.silent() if not each.may_be]

    def end(self) -> None:
        if self._is_shown and self._at is not None:
            self._out.write("\n")
