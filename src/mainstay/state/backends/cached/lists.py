"""Lists in a database: one row per key. Part of the durable format, version 1.

::

    generation, 8 bytes | for each element: its length, 4 bytes, and its cell

Elements follow one another, so appending needs no decoding. The generation is that of the segment
that was written last: a reader who still has that segment in memory knows not to append it again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.backends.cached.cells import LENGTH, cells_of
from mainstay.state.backends.cached.tables import CachedTable
from mainstay.state.backends.changes import DELETED, append_to, list_columns, list_operations
from mainstay.state.info import StateInfo
from mainstay.state.stored_key import StoredKey
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


class CachedLists(CachedTable):
    """A list per key. Appending does not read what is there.

    A change is a pair: whether it replaces, and the elements; or the mark of a deletion.
    """

    def __init__(
        self, info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
    ) -> None:
        super().__init__(info, stored, number, max_parallelism)
        self.cells = ListCells(info.value)
        self._elements = 0

    @property
    def weight(self) -> int:
        return self._elements + len(self.changes)

    def newest_of(self, change: Any) -> Any:
        return None if change is DELETED or not change[1] else change[1][-1]

    def put(self, key: Any, kept: list[Any]) -> None:
        self._elements += len(kept)
        self.live[key] = list(kept)
        self.changes[key] = (True, list(kept))

    def append(self, key: Any, kept: list[Any]) -> None:
        self._elements += len(kept)
        if self.live.has(key):
            items = self.live[key]
            self.live[key] = list(kept) if items is None else items
            if items is not None:
                items.extend(kept)
        append_to(self.changes, key, kept)

    def delete(self, key: Any) -> None:
        if self.live.has(key) and self.live[key] is None:
            return
        self.live[key] = None
        self.changes[key] = DELETED

    def freeze_as(self, generation: int) -> list[Any]:
        self._elements = 0
        return super().freeze_as(generation)

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        return list_operations(changes)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        return list_columns(rows, self.key, self.info.value)

    def load(self, keys: list[Any]) -> None:
        found: list[bytes | None] = [None] * len(keys)
        if self.database is not None:
            found = self.database.get_many(self.rows.of(keys))
        for key, cell in zip(keys, found, strict=True):
            self.live[key] = self._overlaid(key, cell)

    def found(self, key: Any) -> Any:
        (cell,) = (None,) if self.database is None else self.database.get_many(self.rows.of([key]))
        return self._overlaid(key, cell)

    def _overlaid(self, key: Any, cell: bytes | None) -> list[Any] | None:
        """A list as the database has it, with the changes that it does not have yet."""
        # The database may have some of the frozen changes already: its row says which.
        generation, items = (-1, []) if cell is None else self.cells.decode(cell)
        for number, part in self.frozen:
            if number > generation:
                items = _appended(items, part.get(key))
        return _appended(items, self.changes.get(key)) or None

    def copied(
        self, rows: Sequence[tuple[bytes, bytes]], generation: int
    ) -> Iterator[tuple[bytes, bytes]]:
        # Generations count within one database.
        head = GENERATION.pack(generation)
        for row_key, cell in super().copied(rows, generation):
            yield row_key, head + cell[GENERATION.size :]

    def stored(self) -> Iterator[tuple[Any, Any]]:
        for chunk in self.scan_chunks():
            keys = self.rows.keys([row_key for row_key, _ in chunk])
            yield from zip(keys, (self.cells.decode(cell)[1] for _, cell in chunk), strict=True)


def _appended(items: list[Any], change: Any) -> list[Any]:
    """A list after a change of it: none, a deletion, or elements that replace or follow."""
    if change is None:
        return items
    if change is DELETED:
        return []
    return list(change[1]) if change[0] else [*items, *change[1]]
