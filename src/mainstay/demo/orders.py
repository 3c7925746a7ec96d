"""Orders as a shop would see them: a replayable source that gives them as time passes.

Order *n* is the same whenever it is read, so a reader that goes on from an offset gives exactly
what a reader that was never interrupted would have given. An offset also has the moment at which
the split was read first: orders come into being from then on, whether somebody reads or not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.connectors import Polled, Source, Split, SplitReader
from mainstay.demo.killing import Obedience
from mainstay.schema import to_schema

SCHEMA = to_schema("number long, customer string, amount long")
CUSTOMERS = 5000


def orders(first: int, after: int) -> pa.RecordBatch:
    """The orders from one number up to another."""
    numbers = np.arange(first, after, dtype=np.int64)
    customers = (numbers * 2_654_435_761 >> 7) % CUSTOMERS
    names = pa.array([f"customer-{customer:04d}" for customer in customers.tolist()])
    amounts = numbers * 7919 % 100 + 1
    return pa.record_batch([pa.array(numbers), names, pa.array(amounts)], schema=SCHEMA)


class Orders(Source):
    """A number of orders, which come into being at a rate per second once a split is read.

    A reader that was interrupted finds what came in the meantime waiting for it. Workers that read
    look in ``folder`` whether they are to be killed.
    """

    schema = SCHEMA

    def __init__(
        self, count: int, per_second: float, splits: int = 2, folder: str | None = None
    ) -> None:
        self.count = count
        self.per_second = per_second
        self.splits = splits
        self.folder = folder

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        bounds = [self.count * number // self.splits for number in range(self.splits + 1)]
        return [Split(f"orders-{first}", [first, after]) for first, after in pairwise(bounds)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        first, after = split.data
        # By the clock that machines share: another one may go on with the split.
        position, opened = (first, time.time()) if offset is None else offset
        return _OrdersReader(self, first, position, after, opened)

    def due(self, opened: float, first: int, after: int) -> int:
        """Up to where the orders of a split exist by now."""
        elapsed_s = time.time() - opened
        return min(after, first + int(elapsed_s * self.per_second / self.splits))

    def placed(self, opened: float) -> int:
        """How many orders there are by now, where all splits were first read at one moment."""
        return min(self.splits * self.due(opened, 0, self.count), self.count)


class _OrdersReader(SplitReader):
    def __init__(
        self, source: Orders, first: int, position: int, after: int, opened: float
    ) -> None:
        self._source = source
        self._first = first
        self._position = position
        self._after = after
        self._opened = opened
        self._obedience = None if source.folder is None else Obedience(source.folder)

    def poll(self, max_rows: int) -> Polled:
        if self._obedience is not None:
            self._obedience.look()
        start = self._position
        due = self._source.due(self._opened, self._first, self._after)
        end = max(start, min(start + max_rows, due))
        self._position = end
        batch = orders(start, end) if end > start else None
        return Polled(batch, [end, self._opened], finished=end == self._after)
