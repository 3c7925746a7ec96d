"""What the demonstration shows in a terminal, or writes into a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from mainstay.api.job import Job
from mainstay.runtime.coordinator.epochs import EpochRecord


class Screen:
    """Lines, and one line that is written over while things go on; a pipe gets lines only."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._width = 0

    def line(self, text: str = "") -> None:
        """A line that stays."""
        self._wipe()
        print(text, file=self._out, flush=True)

    def progress(self, text: str) -> None:
        """How far things are; a pipe does not get it."""
        if self._is_terminal:
            self._wipe()
            print(text, end="", file=self._out, flush=True)
            self._width = len(text)

    def _wipe(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=self._out)
            self._width = 0

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns of text; the last one is aligned to the left, the others to the right."""
        cells = [[str(cell) for cell in row] for row in (columns, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            *others, last = zip(row, widths, strict=True)
            aligned = "  ".join(cell.rjust(width) for cell, width in others)
            self.line(f"  {aligned}  {last[0]}")


def show_epochs(screen: Screen, epochs: Sequence[EpochRecord]) -> None:
    """One line for each epoch; of its subtasks the slowest counts."""
    screen.table(
        ["epoch", "attempt", "ms", "sync ms", "async ms", "align ms", "bytes", "status"],
        [
            [
                record.epoch,
                record.attempt,
                f"{record.duration_s * 1e3:.0f}",
                f"{_slowest(record, 'sync_s'):.2f}",
                f"{_slowest(record, 'async_s'):.0f}",
                f"{_slowest(record, 'alignment_s'):.1f}",
                f"{record.size_bytes:,}",
                f"{record.status}  {record.reason}".rstrip(),
            ]
            for record in epochs
        ],
    )


def _slowest(record: EpochRecord, figure: str) -> float:
    values = (getattr(figures, figure) for figures in record.figures.values())
    return max(values, default=0.0) * 1e3


def show_attempts(screen: Screen, job: Job) -> None:
    """What each attempt started from and how it ended."""
    for attempt in job.attempts():
        start = "empty state" if attempt.restored_from is None else f"epoch {attempt.restored_from}"
        end = "failed" if attempt.reason else "finished"
        screen.line(f"  attempt {attempt.attempt}: from {start}; {end}")
