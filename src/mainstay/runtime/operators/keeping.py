"""Operators that keep some rows of each key: those that came first, the newest, the greatest.

Rows are gathered, and those of a key that came together are compared by column. For each key that
is left the state is asked once, for all keys together, and written only where it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.operators.gathering import GatheringOperator
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.runtime.spec import KeySpec
from mainstay.state.backends.contract import Work
from mainstay.state.grouping import Grouper, words_of

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Some rows with the number of the key of each: ``codes`` are below ``count``."""

    codes: Rows
    count: int

    def first(self) -> Rows:
        """The first row of each key."""
        found = np.empty(self.count, np.int64)
        # Assigned backwards, so that the first row of each key stays.
        found[self.codes[::-1]] = np.arange(len(self.codes) - 1, -1, -1)
        return found

    def last(self) -> Rows:
        """The last row of each key."""
        found = np.empty(self.count, np.int64)
        found[self.codes] = np.arange(len(self.codes))
        return found


class Keeping(GatheringOperator):
    """What these operators share: the keys of a batch, and the columns that rows show."""

    def __init__(self, key: KeySpec, schema: pa.Schema) -> None:
        super().__init__()
        self.reader = KeyReader(key, schema)
        self._key = key
        self._grouper = Grouper()

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        assert self.context.keyed is not None
        return self.context.keyed.read_ahead(self.reader.keys(batch))

    def state(self, name: str) -> Any:
        """The handle of a state, which takes and gives columns."""
        assert self.context.keyed is not None
        return self.context.keyed.handles[name]

    def grouped(self, keys: pa.Array) -> KeyedRows:
        groups = self._grouper.group(keys)
        codes = groups.codes
        return KeyedRows(np.arange(len(keys)) if codes is None else codes, groups.count)

    def emit(self, batch: pa.RecordBatch, rows: Rows) -> None:
        """Emit some rows in the order in which they came."""
        if len(rows):
            self.out(self.reader.visible(batch.take(pa.array(np.sort(rows)))))


def times_of(column: pa.Array) -> Rows:
    """The times of rows in microseconds since 1970; anything where there is none."""
    if column.type.unit != "us":
        column = column.cast(pa.timestamp("us", column.type.tz))
    return words_of(column)
