"""Rows that a group function is given together although they came in several slices.

They are in memory alone: all of them are handed over before a marker passes. Time does not pass
them: watermarks wait, and so do timers of the wall clock.
"""

from __future__ import annotations

import math

import pyarrow as pa

MOST_ROWS = 1 << 20
"""Rows that are held at most; then they are handed over, whatever was asked for."""
UNTIL_MARKER = math.inf


class GatheredRows:
    """Rows that wait for the next marker, or until the first of them has waited long enough."""

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._since = 0.0

    @property
    def is_empty(self) -> bool:
        return not self._batches

    @property
    def is_full(self) -> bool:
        return self._rows >= MOST_ROWS

    def add(self, batch: pa.RecordBatch, now: float) -> None:
        if not self._batches:
            self._since = now
        self._batches.append(batch)
        self._rows += batch.num_rows

    def until(self) -> float | None:
        """When they are to be handed over at the latest; None if only a marker says so."""
        if self.is_empty or self._hold_s == UNTIL_MARKER:
            return None
        return self._since + self._hold_s

    def take(self) -> pa.RecordBatch:
        batches, self._batches, self._rows = self._batches, [], 0
        return pa.concat_batches(batches)
