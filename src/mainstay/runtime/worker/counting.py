"""Counting: how many rows an operator has taken and emitted, and how long a task was at work."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from mainstay.runtime.operators.base import Emit


class Counts:
    """The rows of one operator of a task."""

    __slots__ = ("emitted", "taken")

    def __init__(self) -> None:
        self.taken = self.emitted = 0

    def taking(self, emit: Emit) -> Emit:
        """The way into the operator, counted."""

        def counted(batch: pa.RecordBatch) -> None:
            self.taken += batch.num_rows
            emit(batch)

        return counted

    def emitting(self, emit: Emit) -> Emit:
        """The way out of it, counted."""

        def counted(batch: pa.RecordBatch) -> None:
            self.emitted += batch.num_rows
            emit(batch)

        return counted

    def giving_back(self, give_back: Callable[[], int]) -> Callable[[], int]:
        """Rows that it was given and did not take are not counted."""

        def counted() -> int:
            rows = give_back()
            self.taken -= rows
            return rows

        return counted


class Effort:
    """How long a task was at work since it was last asked, and for how many rows."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._busy_s = 0.0
        self._rows = 0
        self._row_s = 0.0

    def took(self, rows: int, elapsed_s: float) -> None:
        """Rows were taken: none if a function has made more of them, which are left."""
        self._busy_s += elapsed_s
        self._rows += max(rows, 0)

    def lately(self, now: float) -> tuple[float, float]:
        """The time a row took, and the part of the time it was at work."""
        if now <= self._since:
            return self._row_s, 0.0
        load = min(1.0, self._busy_s / (now - self._since))
        if self._rows:
            self._row_s = self._busy_s / self._rows
        self._since, self._busy_s, self._rows = now, 0.0, 0
        return self._row_s, load
