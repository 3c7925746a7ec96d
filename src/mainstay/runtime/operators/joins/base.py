"""What all joins share: gathering rows of both sides, late rows, and the columns of the output."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.runtime.joins import KEY, LEFT, RIGHT, JoinShape
from mainstay.runtime.messages import Epoch, TimeMark
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.operators.ended import EndingTimes
from mainstay.runtime.operators.gathering import LINGER_S
from mainstay.runtime.operators.joins.matching import Mask, have_no_null
from mainstay.runtime.operators.joins.sides import Arrived, Reader
from mainstay.runtime.operators.made_for import check_made_for
from mainstay.runtime.side_names import LATE_LEFT, LATE_RIGHT
from mainstay.runtime.watermarks import END_US
from mainstay.schema.sizes import joined

GATHERED_ROWS = 1 << 16

LATE_SIDES = (LATE_LEFT, LATE_RIGHT)


class Join(Operator):
    """A join of two keyed inputs; the left one is port 0."""

    hold_us = 0
    """By how much the watermark is held back: no row is emitted that is older than that."""

    def __init__(self, shape: JoinShape) -> None:
        self.shape = shape
        self._gathered: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._rows = 0
        self._since = 0.0
        self.readers = [Reader(side) for side in shape.sides]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self.open_states(context.keyed.handles)
        made_for = f"{self.what()}, how={self.shape.how!r}"
        check_made_for(context, made_for, is_empty=self.is_empty)

    def open_states(self, handles: Any) -> None:
        """Take over what is kept."""
        raise NotImplementedError

    def what(self) -> str:
        """Which join it is, as far as what is kept depends on it."""
        raise NotImplementedError

    def is_empty(self) -> bool:
        """Whether nothing is kept."""
        raise NotImplementedError

    # ------------------------------------------------------------ gathering

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if not batch.num_rows:
            return
        if not self._rows:
            self._since = self.context.clock.monotonic()
        self._gathered[port].append(batch)
        self._rows += batch.num_rows
        if self._rows >= GATHERED_ROWS:
            self.flush()

    def flush(self, *, idle: bool = True) -> bool:
        if not self._rows:
            return False
        if not idle and self.context.clock.monotonic() < self._since + LINGER_S:
            return False
        gathered, self._gathered, self._rows = self._gathered, ([], []), 0
        for side, batches in enumerate(gathered):
            for batch in joined(batches) if batches else ():
                self._take(batch, side)
        return True

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()

    def end_of_input(self) -> None:
        self.flush()

    def _take(self, batch: pa.RecordBatch, side: int) -> None:
        """Rows without a time are late, and a null in the key matches nothing."""
        reader = self.readers[side]
        if (has_time := reader.has_time(batch)) is not None:
            self.set_aside(batch.filter(pa.array(~has_time)), side)
            batch = batch.filter(pa.array(has_time))
        keys = reader.keys(batch)
        is_late = self.are_late(batch, keys, side)
        if is_late is not None:
            self.set_aside(batch.filter(pa.array(is_late)), side)
            batch, keys = batch.filter(pa.array(~is_late)), keys.filter(pa.array(~is_late))
        if (may_match := have_no_null(keys)) is not None:
            other = pa.array(~may_match)
            self.take_null_keys(batch.filter(other), keys.filter(other), side)
            batch, keys = batch.filter(pa.array(may_match)), keys.filter(pa.array(may_match))
        if len(keys):
            self.take(reader.arrived(batch, keys), side)

    def take_null_keys(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> None:
        """Rows with a null in their key."""
        self.unmatched(side, keys, self.readers[side].kept(batch))

    def take(self, arrived: Arrived, side: int) -> None:
        """Rows of one side that are in time and may match."""
        raise NotImplementedError

    # ------------------------------------------------------------ time

    def are_late(self, batch: pa.RecordBatch, keys: pa.Array, side: int) -> Mask | None:
        """Which rows can join nothing any more; None if none is so late."""
        return None

    def set_aside(self, batch: pa.RecordBatch, side: int) -> None:
        """Rows that came too late."""
        if batch.num_rows:
            carried = self.shape.sides[side]
            if carried.key.hidden:
                batch = batch.select(
                    [n for n in range(batch.num_columns) if n not in carried.key.columns]
                )
            self.sides[LATE_SIDES[side]](batch)

    def forwarded(self, watermark: TimeMark) -> TimeMark:
        if watermark.time_us is None or watermark.time_us >= END_US:
            return watermark
        return TimeMark(watermark.time_us - self.hold_us, watermark.is_idle)

    # ------------------------------------------------------------ output

    def emit(
        self, keys: pa.Array, left: pa.RecordBatch | None, right: pa.RecordBatch | None
    ) -> None:
        """Emit rows of both sides, or of one alone: the columns of the other are null."""
        count = len(keys)
        if not count:
            return
        # Counted, and not told by the type: a single column of the key may be a struct itself.
        is_one = len(self.shape.sides[LEFT].key.columns) == 1
        parts = [keys] if is_one else keys.flatten()
        columns = []
        for field, (source, number) in zip(self.shape.schema, self.shape.columns, strict=False):
            if source == KEY:
                columns.append(parts[number])
            else:
                rows = (left, right)[source]
                columns.append(pa.nulls(count, field.type) if rows is None else rows.column(number))
        self.out(
            pa.RecordBatch.from_arrays([*columns, *self.more(count)], schema=self.shape.schema)
        )

    def more(self, count: int) -> list[pa.Array]:
        """Columns of the output that are no side's."""
        return []

    def unmatched(self, side: int, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Rows that match nothing: they are emitted alone, where the join does that."""
        if self.shape.pads(side) and len(keys):
            self.emit(keys, rows if side == LEFT else None, rows if side == RIGHT else None)


class TimedJoin(Join):
    """A join that goes by event time."""

    def open(self, context: OperatorContext) -> None:
        self.fired = EndingTimes(context)
        super().open(context)

    def before_marker(self, epoch: Epoch) -> None:
        super().before_marker(epoch)
        self.fired.store()

    def end_of_input(self) -> None:
        super().end_of_input()
        self.fired.ended()
