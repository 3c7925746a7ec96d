"""A list as a source: rows, watermarks and idleness, one element at a time, when its turn comes."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa

from mainstay.connectors.memory import Rows
from mainstay.errors import GraphError
from mainstay.runtime.connector import Json, Polled, Split, SplitReader
from mainstay.runtime.watermarks import WatermarkSpec
from mainstay.schema import rows_to_batch, to_schema
from mainstay.testing.elements import OF_INPUT, OF_JOB, Idle, Watermark, is_row
from mainstay.testing.script import Stage


class NothingYetError(Exception):
    """The turn of the next element has not come."""


class Listed(Rows):
    """A list of rows and elements. Its rows go round-robin to the subtasks of its source, and every
    one of them is told of watermarks and idleness."""

    may_block = True

    def __init__(self, schema: Any, values: Sequence[Any], name: str = "a list") -> None:
        self.schema = to_schema(schema)
        self.values = list(values)
        self.elements = [each for each in self.values if not isinstance(each, OF_JOB)]
        given = [each for each in self.elements if is_row(each)]
        self.batch = rows_to_batch(given, self.schema, f"the rows of {name}")
        self.splits, self.batch_rows = 1, None
        self.uid, self.stage = "", Stage(())
        self.promises: list[int | None] = []
        """The watermark after each row, where every row has one."""
        _check_order([each for each in self.elements if isinstance(each, Watermark)], name)

    @staticmethod
    def of(rows: Rows) -> Listed:
        """Given rows, one at a time."""
        listed = Listed(rows.schema, [])
        listed.batch = rows.batch
        listed.values = listed.elements = [()] * rows.batch.num_rows
        return listed

    def on(self, stage: Stage, uid: str, splits: int) -> Listed:
        """The same for one run."""
        placed = copy(self)
        placed.stage, placed.uid, placed.splits = stage, uid, splits
        return placed

    def after_every_row(self, time: WatermarkSpec) -> Listed:
        """The same with a watermark after each row, for all splits: that of the newest so far."""
        promising = copy(self)
        times = self.batch.column(time.column).cast(pa.int64()).to_pylist()
        newest = accumulate(times, _newer)
        promising.promises = [None if at is None else at - time.delay_us for at in newest]
        return promising

    @property
    def speaks_of_time(self) -> bool:
        return any(isinstance(each, OF_INPUT) for each in self.elements)

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        count = self.splits
        return [Split(f"list-{number}-of-{count}", [number, count]) for number in range(count)]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        number, count = split.data
        return _ListReader(self, number, count, offset or 0)


class _ListReader(SplitReader):
    """Reads the share of one split. A position counts the elements of all shares."""

    def __init__(self, source: Listed, number: int, count: int, position: int) -> None:
        self._source = source
        self._number, self._count = number, count
        self._position = position
        before = source.elements[:position]
        self._rows = sum(map(is_row, before))
        self._is_idle = bool(before) and isinstance(before[-1], Idle)
        self._has_said_nothing = False
        source.stage.opened(source.uid, position)

    def poll(self, max_rows: int) -> Polled:
        source = self._source
        if self._position == len(source.elements):
            if source.stage.may_end(source.uid):
                return Polled(None, self._position, finished=True)
            return self._nothing()
        if not source.stage.may_read(source.uid, self._position):
            return self._nothing()
        self._has_said_nothing = False
        return self._take(source.elements[self._position])

    def _nothing(self) -> Polled:
        """Say once that there is nothing now, since when the split is quiet; then wait."""
        if self._has_said_nothing:
            raise NothingYetError
        self._has_said_nothing = True
        return self._polled()

    def _take(self, element: Any) -> Polled:
        self._position += 1
        self._is_idle = isinstance(element, Idle)
        if isinstance(element, Watermark):
            return self._polled(watermark_us=element.time_us)
        if self._is_idle:
            return self._polled()
        row, self._rows = self._rows, self._rows + 1
        is_own = row % self._count == self._number
        promised = self._source.promises[row] if self._source.promises else None
        return self._polled(self._source.batch.slice(row, 1) if is_own else None, promised)

    def _polled(self, batch: Any = None, watermark_us: int | None = None) -> Polled:
        return Polled(
            batch,
            self._position,
            ready_in_s=0.0,
            watermark_us=watermark_us,
            is_idle=self._is_idle,
        )


def _newer(newest: int | None, at: int | None) -> int | None:
    if newest is None or at is None:
        return newest if at is None else at
    return max(newest, at)


def _check_order(watermarks: Sequence[Watermark], name: str) -> None:
    for before, after in pairwise(watermarks):
        if after.time_us < before.time_us:
            raise GraphError(
                f"{name} has {after} after {before}: event time never goes back. Give the "
                "watermarks of an input in their order."
            )
