"""How attempts took over from the ones before them, and how long each part of that took."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mainstay.runtime.messages import Ready
from mainstay.runtime.status import TAKEN_OVER, AttemptRecord, Recovery, Status


class Recoveries:
    """Notes when the workers of each attempt had come in, and when they ran."""

    def __init__(self) -> None:
        self._gathered_at: dict[int, float] = {}
        self._running_at: dict[int, float] = {}
        self._taken_over: dict[int, float] = {}
        self._read: dict[int, list[Ready]] = {}

    def took_over(self, attempt: int, silent_since: float) -> None:
        """An attempt is the first after another process led, which was last heard of at a time."""
        self._taken_over.setdefault(attempt, silent_since)

    def gathered(self, attempt: int, wall: float) -> None:
        self._gathered_at[attempt] = wall

    def restored(self, ready: Ready) -> None:
        """A worker has restored its state."""
        self._read.setdefault(ready.attempt, []).append(ready)

    def update(self, status: Status, attempts: Sequence[AttemptRecord], wall: float) -> None:
        if status is Status.RUNNING:
            self._running_at.setdefault(attempts[-1].attempt, wall)

    def of(self, attempts: Sequence[AttemptRecord]) -> list[Recovery]:
        ends = {
            record.attempt: (before.reason, before.ended_at)
            for before, record in pairwise(attempts)
            if before.ended_at is not None
        }
        ends |= {attempt: (TAKEN_OVER, since) for attempt, since in self._taken_over.items()}
        return [
            Recovery(
                record.attempt,
                *ends[record.attempt],
                record.begun_at,
                self._gathered_at[record.attempt],
                self._running_at[record.attempt],
                sum(each.local_bytes for each in self._read.get(record.attempt, ())),
                sum(each.stored_bytes for each in self._read.get(record.attempt, ())),
            )
            for record in attempts
            if record.attempt in ends and record.attempt in self._running_at
        ]
