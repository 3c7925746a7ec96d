"""How many rows a task takes at a time, so that a slice takes a few milliseconds at most.

A slice is measured twice. The processor time it took is what its rows cost, however busy the
processor is. The time that passed is more where the function waits for something, but also where
other threads of the process had their turn: many jobs in one process would make each other's
slices smaller and smaller. So a slice may last a good deal longer than it may compute.
"""

from __future__ import annotations

PATIENCE = 16
"""How much longer a slice may last than it may compute. A thread has its turn for five milliseconds
at most, so a slice of three is interrupted by each of eight others once: forty."""


class SliceSize:
    """Grows while slices are quick and shrinks at once when one was slow.

    A slow function (a millisecond a row) must not make its worker deaf for the length of a batch.
    """

    def __init__(self, target_s: float, first: int, most: int) -> None:
        self.rows = min(first, most)
        self._target_s = target_s
        self._most = most

    def took(self, rows: int, elapsed_s: float, cpu_s: float) -> None:
        """Learn from a slice; a nearly empty one says nothing about full ones."""
        slowness = max(cpu_s, elapsed_s / PATIENCE) / self._target_s
        if slowness > 2:
            self.rows = max(1, int(rows / slowness))
        elif rows >= self.rows and slowness < 1 / 2:
            self.rows = min(self._most, self.rows * 2)
