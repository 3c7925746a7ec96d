"""How many rows a task takes at a time, so that a slice takes a few milliseconds at most."""

from __future__ import annotations


class SliceSize:
    """Grows while slices are quick and shrinks at once when one was slow.

    A slow function (a millisecond a row) must not make its worker deaf for the length of a batch.
    """

    def __init__(self, target_s: float, first: int, most: int) -> None:
        self.rows = min(first, most)
        self._target_s = target_s
        self._most = most

    def took(self, rows: int, elapsed_s: float) -> None:
        """Learn from a slice of so many rows; a nearly empty one says nothing about full ones."""
        if elapsed_s > 2 * self._target_s:
            self.rows = max(1, int(rows * self._target_s / elapsed_s))
        elif rows >= self.rows and elapsed_s < self._target_s / 2:
            self.rows = min(self._most, self.rows * 2)
