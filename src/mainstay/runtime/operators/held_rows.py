"""Rows that an operator holds back for a while, in its state: no marker stands before them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import HELD, HELD_BY_KEY
from mainstay.runtime.spec import KeySpec
from mainstay.schema.ipc import from_ipc, to_ipc
from mainstay.state.hashing import key_groups

SLICE_ROWS = 256


class HeldRows:
    """Rows of one input in the order in which they came. With a key, each goes to its owner."""

    def __init__(self, context: OperatorContext, key: KeySpec | None, schema: pa.Schema) -> None:
        self._context = context
        self._key = key
        self._schema = schema
        self._held = context.lists[(HELD if key is None else HELD_BY_KEY).name]
        if key is not None:
            # All subtasks see all that was held, and each takes what it owns now.
            self._held.update([data for each in self._held.get() if (data := self._own(each))])

    def _own(self, data: bytes) -> bytes | None:
        assert self._key is not None
        rows = from_ipc(data).combine_chunks()
        columns = [rows.column(number) for number in self._key.columns]
        groups = key_groups(columns, self._context.max_parallelism).astype(np.int64)
        mine = self._context.groups
        is_own = (groups >= mine.first) & (groups <= mine.last)
        if not is_own.any():
            return None
        return to_ipc(rows.filter(pa.array(is_own)).to_batches(), self._schema)

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.add(to_ipc([batch], self._schema))

    def slices(self) -> Iterator[pa.RecordBatch]:
        """All that is held, a little at a time."""
        for data in self._held.get():
            yield from from_ipc(data).to_batches(max_chunksize=SLICE_ROWS)

    def clear(self) -> None:
        self._held.clear()
