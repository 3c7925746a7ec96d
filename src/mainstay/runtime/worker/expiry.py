"""Expiry: when states with a time to live are swept, so that memory and snapshots shrink.

A slice takes a fraction of a millisecond and comes every few hundredths of a second, however large
the state is; a pass over everything is begun some time after the last one was over, a part of the
shortest time to live. Nobody reads what has expired meanwhile, so none of this changes a result.
"""

from __future__ import annotations

from mainstay.state.ttl_tables import Sweeper

SLICE_ELEMENTS = 512
PAUSE_S = 0.02
"""Between two slices of a pass."""
PASSES_PER_LIFETIME = 8
SHORTEST_REST_S, LONGEST_REST_S = 1.0, 600.0
"""Between the end of a pass and the next."""


class Expiry:
    """The sweeping of one operator in one subtask."""

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper
        rest_s = sweeper.lifetime_us / 1_000_000 / PASSES_PER_LIFETIME
        self._rest_s = min(max(rest_s, SHORTEST_REST_S), LONGEST_REST_S)
        self._due: float | None = None

    def tick(self, now: float) -> bool:
        """Called on every pass of the loop with its monotonic time; True if it swept."""
        if self._due is None:
            self._due = now + self._rest_s
        if now < self._due:
            return False
        has_more = self._sweeper.slice(SLICE_ELEMENTS)
        self._due = now + (PAUSE_S if has_more else self._rest_s)
        return True

    def deadline(self) -> float | None:
        """When there is something to do again."""
        return self._due

    def stop(self) -> None:
        self._sweeper.stop()
