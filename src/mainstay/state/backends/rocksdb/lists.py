"""Lists in RocksDB: one row per key. Part of the durable format, version 1.

::

    generation, 8 bytes | for each element: its length, 4 bytes, and its cell

Elements follow one another, so appending needs no decoding. The generation is that of the segment
that was written last: a reader who still has that segment in memory knows not to append it again.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.backends.rocksdb.cells import LENGTH, cells_of
from mainstay.state.values import ValueType

GENERATION = struct.Struct("<Q")


class ListCells:
    """The cells of lists of one element type."""

    def __init__(self, value: ValueType) -> None:
        self._cells = cells_of(value)

    def encode(self, column: pa.Array) -> list[bytes]:
        """The elements of each list, without a generation."""
        cells = self._cells.encode(column.flatten())
        elements = [LENGTH.pack(len(cell)) + cell for cell in cells]
        ends = np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        starts = [0, *ends[:-1].tolist()]
        return [
            b"".join(elements[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)
        ]

    def decode(self, cell: bytes) -> tuple[int, list[Any]]:
        """The generation and the elements."""
        (generation,) = GENERATION.unpack_from(cell)
        at, found = GENERATION.size, []
        while at < len(cell):
            (length,) = LENGTH.unpack_from(cell, at)
            start = at + LENGTH.size
            at = start + length
            found.append(cell[start:at])
        return generation, self._cells.decode(found)
