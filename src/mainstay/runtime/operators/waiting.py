"""A function of two inputs whose left rows wait until the right input has ended.

Rows of the left input that come before are held in the operator's state, so that epochs go on
meanwhile: nothing stands before a marker. When the right input has ended they are processed in
their order, before anything else. Event time does not pass them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.connected import ConnectedInput, ConnectedRows
from mainstay.runtime.operators.held_rows import HeldRows
from mainstay.state.backends.contract import Work

LEFT, RIGHT = 0, 1


class WaitingRows(ConnectedRows):
    """A function of two inputs that sees no left row before the end of the right input."""

    def __init__(
        self, function: Any, inputs: Sequence[ConnectedInput], output_schema: pa.Schema
    ) -> None:
        super().__init__(function, inputs, output_schema)
        self._key = inputs[LEFT].key
        self._left_schema = inputs[LEFT].schema
        self._is_waiting = True

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._held = HeldRows(context, self._key, self._left_schema)

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        return None if self._is_waiting and port == LEFT else super().ahead(batch, port)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if self._is_waiting and port == LEFT:
            self._held.add(batch)
        else:
            super().process(batch, port)

    def on_port_end(self, port: int) -> Iterator[None]:
        if port != RIGHT or not self._is_waiting:
            return
        self._is_waiting = False
        # A slice is processed whole: nobody would give the rest of it back.
        pieces, self.pieces = self.pieces, lambda rows: rows
        for batch in self._held.slices():
            super().process(batch, LEFT)
            yield
        self.pieces = pieces
        self._held.clear()

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        if self._is_waiting:
            self.flush()
            return
        yield from super().on_watermark(watermark)

    def forwarded(self, watermark: TimeMark) -> TimeMark:
        return TimeMark(None) if self._is_waiting else watermark
