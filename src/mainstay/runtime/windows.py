"""How much may be on its way to a task: as much as it takes in a fraction of a second, and no more.

A window of a fixed size is a fraction of a second for a fast task and minutes for a slow one, and
markers wait behind all of it. So the window of a channel follows the rate at which its task takes
rows, between two bounds. It begins with the lower one: what a slow task is sent before its rate is
known would be in the way of markers for as long as it takes.
"""

from __future__ import annotations

WORTH_S = 0.2
"""The time that a task needs for what may be on its way to it."""
LOOK_S = 0.05
"""How often the rate is measured."""
WEIGHT = 0.3
"""What a new measurement counts for."""


class Windows:
    """The window of each channel of one task."""

    def __init__(self, most_bytes: int, least_bytes: int, channels: int) -> None:
        self.bytes = self._least = min(least_bytes, most_bytes)
        self._most = most_bytes
        self._channels = max(channels, 1)
        self._taken = 0
        self._since: float | None = None
        self._rate: float | None = None

    def took(self, size_bytes: int, now: float) -> None:
        """Bytes were taken. Time in which there was nothing to take makes the window smaller, which
        does no harm: a task that waits for rows has room for them."""
        if self._since is None:
            self._since = now
        self._taken += size_bytes
        elapsed_s = now - self._since
        if elapsed_s < LOOK_S:
            return
        rate = self._taken / elapsed_s
        self._rate = rate if self._rate is None else self._rate + WEIGHT * (rate - self._rate)
        self._taken, self._since = 0, now
        wanted = int(self._rate * WORTH_S / self._channels)
        self.bytes = max(self._least, min(self._most, wanted))
