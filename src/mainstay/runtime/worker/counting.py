"""Counting: how many rows an operator has taken and emitted, and how long a task was at work."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from mainstay.runtime.operators.base import Emit


class Counts:
    """The rows of one operator of a task."""

    __slots__ = ("emitted", "sides", "taken")

    def __init__(self) -> None:
        self.taken = self.emitted = 0
        self.sides: dict[str, int] = {}
        """How many rows each of its side outputs got."""

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

    def emitting_aside(self, side: str, emit: Emit) -> Emit:
        """The way out into a side output, counted."""
        self.sides[side] = 0

        def counted(batch: pa.RecordBatch) -> None:
            self.sides[side] += batch.num_rows
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
        self.total_s = 0.0
        """How long it was at work since it was made."""
        self._since = now
        self._busy_s = 0.0
        self._rows = 0
        self._row_s = 0.0

    def took(self, rows: int, elapsed_s: float) -> None:
        """Rows were taken: none if a function has made more of them, which are left."""
        self.total_s += elapsed_s
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


class HeldBack:
    """How long a task has existed, and how long of that it could not go on."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._since: float | None = None
        self._total_s = 0.0

    def note(self, now: float, *, is_held_back: bool) -> None:
        """It could go on just now, or could not."""
        if is_held_back:
            self._since = now if self._since is None else self._since
        elif self._since is not None:
            self._total_s += now - self._since
            self._since = None

    def so_far(self, now: float) -> tuple[float, float]:
        """How long it has existed, and how long it was held back."""
        held_s = 0.0 if self._since is None else now - self._since
        return now - self._began, self._total_s + held_s
