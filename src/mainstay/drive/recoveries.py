"""How attempts took over from the ones before them, and how long each part of that took."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mainstay.runtime.status import AttemptRecord, Recovery, Status


class Recoveries:
    """Notes when the workers of each attempt had come in, and when they ran."""

    def __init__(self) -> None:
        self._gathered_at: dict[int, float] = {}
        self._running_at: dict[int, float] = {}

    def gathered(self, attempt: int, wall: float) -> None:
        self._gathered_at[attempt] = wall

    def update(self, status: Status, attempts: Sequence[AttemptRecord], wall: float) -> None:
        if status is Status.RUNNING:
            self._running_at.setdefault(attempts[-1].attempt, wall)

    def of(self, attempts: Sequence[AttemptRecord]) -> list[Recovery]:
        return [
            Recovery(
                record.attempt,
                before.reason,
                before.ended_at,
                record.begun_at,
                self._gathered_at[record.attempt],
                self._running_at[record.attempt],
            )
            for before, record in pairwise(attempts)
            if before.ended_at is not None and record.attempt in self._running_at
        ]
