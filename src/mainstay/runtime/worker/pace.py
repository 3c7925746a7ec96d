"""Pace: functions of a row stop in the middle of a slice that takes too long.

How long a function takes is known when it has been called. One that turns slow may have thousands
of rows before it by then, and its worker would hear of nothing until the last of them. So its rows
come in pieces, and between two pieces there is a look at the clock. What is left of a slice waits
here, before its operator, and is taken before anything else that the task does: no marker,
watermark or end of input passes it. A source takes back what is left, where that is possible, so
that not even an epoch waits for it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Clock

Process = Callable[[pa.RecordBatch, int], None]


class Pace:
    """The pace of one task, and what is left of its slices, by the place of an operator in it."""

    def __init__(
        self, clock: Clock, limit_s: float = 0.1, first_rows: int = 8, most_rows: int = 64
    ) -> None:
        self.clock = clock
        self.until = math.inf
        """When a piece is to be the last one."""
        self.first_rows = first_rows
        self.most_rows = most_rows
        self._limit_s = limit_s
        self._rests: dict[int, deque[tuple[pa.RecordBatch, int]]] = {}
        self._process: dict[int, Process] = {}

    def begin(self, now: float) -> None:
        """From now on rows are taken for a limited time."""
        self.until = now + self._limit_s

    def end(self) -> None:
        """What is done now is done to its end."""
        self.until = math.inf

    def into(self, operator: Operator, place: int) -> Process:
        """The way into an operator, which may have it take a part of a batch only."""
        if operator.max_slice_rows is None:
            return operator.process
        pieces = operator.pieces = Pieces(self)
        process = operator.process

        def take(batch: pa.RecordBatch, port: int) -> None:
            if place in self._rests:
                self._rests[place].append((batch, port))
                return
            pieces.taken = pieces.rows = batch.num_rows
            process(batch, port)
            if pieces.taken < batch.num_rows:
                self._rests[place] = deque([(batch.slice(pieces.taken), port)])

        self._process[place] = take
        return take

    def way_into(self, operator: Operator, place: int) -> Process:
        """The way into an operator of the task, as ``into`` has made it."""
        return self._process.get(place, operator.process)

    # ------------------------------------------------------------ what is left

    @property
    def has_rest(self) -> bool:
        return bool(self._rests)

    def resume(self, max_rows: int) -> None:
        """Go on with what is left, that of the last operator first."""
        place = max(self._rests)
        waiting = self._rests.pop(place)
        batch, port = waiting.popleft()
        if batch.num_rows > max_rows:
            waiting.appendleft((batch.slice(max_rows), port))
            batch = batch.slice(0, max_rows)
        self._process[place](batch, port)
        if waiting:
            # What is left of this piece comes before what was behind it.
            self._rests.setdefault(place, deque()).extend(waiting)

    def finish(self, max_rows: int, *, behind_head: bool = False) -> None:
        """Take all that is left, however long it takes; or only what the head has emitted."""
        self.end()
        while self._rests and (max(self._rests) or not behind_head):
            self.resume(max_rows)

    def rest_of_head(self) -> list[pa.RecordBatch]:
        """What the first operator has left of the slice that it was given last."""
        return [batch for batch, _ in self._rests.get(0, ())]

    @property
    def rows_left(self) -> int:
        return sum(batch.num_rows for rest in self._rests.values() for batch, _ in rest)

    def give_back(self, place: int) -> int:
        """Forget what is left of the batch an operator was given last; how many rows that is."""
        return sum(batch.num_rows for batch, _ in self._rests.pop(place, ()))


class Pieces:
    """The rows of a batch in pieces, for one operator; they end early when time is up."""

    __slots__ = ("_pace", "rows", "taken")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.rows = self.taken = 0

    def __call__(self, rows: Iterable[Any]) -> Iterable[Any]:
        if self.rows <= self._pace.first_rows:
            return rows
        return chain.from_iterable(self._pieces(iter(rows)))

    def _pieces(self, rows: Iterator[Any]) -> Iterator[Iterator[Any]]:
        pace, size, self.taken = self._pace, self._pace.first_rows, 0
        while self.taken < self.rows:
            # Before it is handed out, because nobody need ask for more after the last one.
            self.taken = min(self.taken + size, self.rows)
            yield islice(rows, size)
            if pace.clock.monotonic() >= pace.until:
                return
            size = min(2 * size, pace.most_rows)
