"""Group functions with an initial state: a second input whose rows come before all others.

Rows of the first input that come earlier are held in the operator's state, so that epochs go on
meanwhile. No timer fires and event time does not pass until the second input has ended. After a
restore that is at once, because its source has been read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.group_function import GroupFunction, GroupTimes
from mainstay.runtime.operators.groups import KeyedGroups
from mainstay.runtime.operators.held_rows import HeldRows
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.runtime.spec import KeySpec
from mainstay.state.backends.contract import Work

ROWS, INITIAL = 0, 1


class InitializedGroups(KeyedGroups):
    """Calls a group function for an initial state first."""

    def __init__(
        self,
        function: GroupFunction,
        key: KeySpec,
        schema: pa.Schema,
        times: GroupTimes,
        initial_key: KeySpec,
        initial_schema: pa.Schema,
    ) -> None:
        super().__init__(function, key, schema, times)
        self._schema = schema
        self.initial_reader = KeyReader(initial_key, initial_schema)
        self._is_waiting = True

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._held = HeldRows(context, self._key, self._schema)

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        if port == INITIAL:
            assert self.initial_reader is not None
            return self._keyed.read_ahead(self.initial_reader.keys(batch))
        return None if self._is_waiting else super().ahead(batch, port)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if port == INITIAL:
            self.call(self._function.initial, batch, "handleInitialState")
        elif self._is_waiting:
            self._held.add(batch)
        else:
            super().process(batch, port)

    def on_port_end(self, port: int) -> Iterator[None]:
        if port != INITIAL or not self._is_waiting:
            return
        self._is_waiting = False
        # What is held stays in the state until all of it is processed.
        self.may_be_cut = False
        for batch in self._held.slices():
            super().process(batch, ROWS)
            yield
        self._held.clear()
        self.may_be_cut = True

    # ------------------------------------------------------------ time does not pass meanwhile

    def is_due(self) -> bool:
        return not self._is_waiting and super().is_due()

    def deadline(self) -> float | None:
        return None if self._is_waiting else super().deadline()

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        if self._is_waiting:
            self.flush()
            return
        yield from super().on_watermark(watermark)

    def forwarded(self, watermark: TimeMark) -> TimeMark:
        return TimeMark(None) if self._is_waiting else super().forwarded(watermark)
