"""The columnar table of the heap backend: arrays by slot, a lane for each accumulator.

Partial results of many keys are folded in at once, without a loop over keys.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import ProtocolError
from mainstay.schema.sizes import combined
from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.backends.heap.lanes import lanes_of, ops_of, rows_of, sets_of
from mainstay.state.backends.heap.slotted import SLICE_ROWS, SlotTable
from mainstay.state.info import StateInfo
from mainstay.state.merge import one_for_each
from mainstay.state.operations import APPEND, PUT
from mainstay.state.slots import Slots
from mainstay.state.stored_key import StoredKey


class HeapColumns(SlotTable):
    """One row of accumulators per key."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]
        super().__init__(info, stored, lanes_of(self.parts, info, sets_of(self.parts)))

    # ------------------------------------------------------------ reading and writing

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys.

        Gives what is kept for these keys afterwards; nobody changes that later.
        """
        slots = self._slots_of(keys)
        pairs = zip(self._lanes, partials, strict=True)
        merged = [lane.merged(slots, partial) for lane, partial in pairs]
        self._touch(slots)
        pairs = zip(self._lanes, merged, strict=True)
        return [lane.put_merged(slots, column) for lane, column in pairs]

    def read(self, key: Any) -> Any:
        """What is kept for a key, as a row; None where nothing is."""
        slot = self._slots.find(key)
        if slot is None:
            return None
        return self.info.value.from_array(self._rows(np.array([slot])))[0]

    def peek(self, key: Any) -> Any:
        """The same, without a trace of the look."""
        return self.read(key)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and its row."""
        for start in range(0, len(self._slots), SLICE_ROWS):
            slots = np.arange(start, min(start + SLICE_ROWS, len(self._slots)))
            keys = self.key.from_array(self._slots.keys(slots))
            yield from zip(keys, self.info.value.from_array(self._rows(slots)), strict=True)

    def _rows(self, slots: Slots) -> pa.Array:
        return rows_of(self._lanes, [lane.whole(slots) for lane in self._lanes], self.info)

    # ------------------------------------------------------------ snapshots

    def rows_of(self, columns: Sequence[Column]) -> pa.Array:
        return rows_of(self._lanes, columns, self.info)

    def ops_of(self, columns: Sequence[Column]) -> pa.Array:
        return ops_of(columns)

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        rows = one_for_each(rows)
        ops = rows.column("op").to_numpy()
        if ((ops != PUT) & (ops != APPEND)).any():
            raise ProtocolError(f"state {self.info.name!r}: a stored row is no put.")
        slots = self._slots_of(self.stored.column(rows))
        for lane, field in zip(self._lanes, combined(rows.column("value")).flatten(), strict=True):
            lane.apply(slots, field, ops == PUT)
