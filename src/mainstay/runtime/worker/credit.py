"""How much may be in flight to a task: as much as it takes in a fraction of a second, and no more.

A window of a fixed size is a fraction of a second for a fast task and minutes for a slow one, and
markers wait behind all of it. So the window of a channel follows the rate at which its task takes
rows, between two bounds. It begins with the lower one, a few rows: what a slow task is sent before
its rate is known would be in the way of markers for as long as it takes.
"""

from __future__ import annotations

WORTH_S = 0.2
"""The time that a task needs for what may be in flight to it."""
LOOK_S = 0.05
"""How often the rate is measured."""
FIRST_LOOK_S = 0.005
"""When it is measured first: a fast task is not to wait for its window."""
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
        self._has_paused = False

    def took(self, size_bytes: int, now: float, *, is_waiting: bool) -> None:
        """Bytes were taken; ``is_waiting`` if there are more. A time in which there was nothing to
        take shows that a task is as fast as that at least, but not that it is no faster."""
        if self._since is None:
            self._since = now
        else:
            self._taken += size_bytes
            self._look(now, now - self._since)
        self._has_paused = self._has_paused or not is_waiting

    def _look(self, now: float, elapsed_s: float) -> None:
        if elapsed_s < (FIRST_LOOK_S if self._rate is None else LOOK_S):
            return
        rate, before = self._taken / elapsed_s, self._rate
        if before is None:
            self._rate = rate
        elif rate > before or not self._has_paused:
            self._rate = before + WEIGHT * (rate - before)
        self._taken, self._since, self._has_paused = 0, now, False
        assert self._rate is not None
        wanted = int(self._rate * WORTH_S / self._channels)
        self.bytes = max(self._least, min(self._most, wanted))
