"""How many rows a task takes at a time, so that a slice takes a few milliseconds at most.

A slice is measured twice. The processor time it took is what its rows cost, however busy the
processor is. The time that passed is more where the function waits for something, but also where
other threads of the process had their turn: many jobs in one process would make each other's
slices smaller and smaller. So a slice may last a good deal longer than it may compute.

What a slice costs whatever its rows does not count: a function of whole batches that takes ten
milliseconds for any of them would be given a row at a time, and be no quicker for it. Two slices of
different sizes tell how much that is, so one that is slow is tried at twice its size now and then.
"""

from __future__ import annotations

PATIENCE = 16
"""How much longer a slice may last than it may compute. A thread has its turn for five milliseconds
at most, so a slice of three is interrupted by each of eight others once: forty."""

TRIED_AFTER = 16
"""Slow slices of one size before one of twice the size is tried."""


class SliceSize:
    """Grows while slices are quick and shrinks at once when one was slow.

    A slow function (a millisecond a row) must not make its worker deaf for the length of a batch.
    """

    def __init__(self, target_s: float, first: int, most: int) -> None:
        self.rows = min(first, most)
        self._target_s = target_s
        self._most = most
        self._fixed_s = 0.0
        """What a slice costs whatever its rows, as far as is known."""
        self._last: tuple[int, float] | None = None
        self._slow = 0
        """Slow slices of one size so far."""

    def took(self, rows: int, elapsed_s: float, cpu_s: float) -> None:
        """Learn from a slice; a nearly empty one says nothing about full ones."""
        cost_s = max(cpu_s, elapsed_s / PATIENCE)
        self._learn(rows, cost_s)
        slowness = (cost_s - self._fixed_s) / self._target_s
        if slowness > 2:
            self.rows = max(1, int(rows / slowness))
        elif rows >= self.rows and slowness < 1 / 2:
            self.rows = min(self._most, self.rows * 2)
        self._slow = self._slow + 1 if rows == self.rows and cost_s > self._target_s else 0
        if self._slow == TRIED_AFTER:
            self.rows = min(self._most, self.rows * 2)

    def _learn(self, rows: int, cost_s: float) -> None:
        """Take the cost of two slices of clearly different sizes for a straight line."""
        before, self._last = self._last, (rows, cost_s)
        if before is None or abs(rows - before[0]) * 4 < before[0]:
            self._fixed_s = min(self._fixed_s, cost_s)
            return
        each_s = max(0.0, (cost_s - before[1]) / (rows - before[0]))
        self._fixed_s = max(0.0, min(cost_s, before[1]) - each_s * min(rows, before[0]))
