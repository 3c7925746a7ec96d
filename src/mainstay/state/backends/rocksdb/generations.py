"""Generations: frozen segments that the database does not have yet, in order.

A segment is numbered when it is frozen. When it is durable and its turn comes, it is written into
the database; until then its changes stay in memory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mainstay.snapshot.statefile import StateTable


@dataclass(slots=True, eq=False)
class Generation:
    """A frozen segment that the database does not have yet; ``tables`` once it is durable."""

    number: int
    segment: str
    size_bytes: int
    tables: list[StateTable] | None = None


class Generations:
    """The generations of one database, oldest first. ``last`` is the number of the newest."""

    def __init__(self) -> None:
        self.last = 0
        self.waiting: deque[Generation] = deque()

    def add(self, segment: str, size_bytes: int) -> None:
        """A segment was frozen, with changes that take so much memory."""
        self.last += 1
        self.waiting.append(Generation(self.last, segment, size_bytes))

    def durable(self, segment: str, tables: list[StateTable]) -> None:
        """A segment is stored: it may be written into the database when its turn comes."""
        for generation in self.waiting:
            if generation.segment == segment:
                generation.tables = tables

    def next(self) -> Generation | None:
        """The one to be written into the database, if it is one's turn."""
        if self.waiting and self.waiting[0].tables is not None:
            return self.waiting[0]
        return None

    def absorbed(self, generation: Generation) -> None:
        """The database has it."""
        assert self.waiting[0] is generation, "segments are written in order"
        self.waiting.popleft()

    @property
    def last_absorbed(self) -> int:
        """The number of the newest that the database has."""
        return self.waiting[0].number - 1 if self.waiting else self.last

    @property
    def segments(self) -> frozenset[str]:
        """The segments that the database does not have yet."""
        return frozenset(generation.segment for generation in self.waiting)

    @property
    def size_bytes(self) -> int:
        """What those that wait take in memory."""
        return sum(generation.size_bytes for generation in self.waiting)
