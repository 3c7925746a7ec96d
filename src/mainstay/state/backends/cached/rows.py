"""Row keys: where in a database something of a key lies. Part of the durable format, version 1.

::

    key-group, 2 bytes, big endian | number of the state, 2 bytes, big endian | the key

so that the key-groups of a subtask are one sequential scan. The key is a byte that says whether it
is there (1) or null (0), and its cell (see ``cells``). In a map each entry has a row of its
own: the length of the key comes before it, in four bytes, and the cell of the map key after it.
States with a namespace have row keys of their own (see ``namespaces``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.backends.cached.cells import FEW, LENGTH, FixedCells, as_bytes, cells_of
from mainstay.state.hashing import hash_of_whole
from mainstay.state.stored_key import StoredKey

PREFIX = struct.Struct(">HH")
_WORD_BYTES = 8
Groups = npt.NDArray[np.integer[Any]]
Order = npt.NDArray[np.integer[Any]]


def group_bounds(first_group: int, last_group: int) -> tuple[bytes, bytes | None]:
    """From where to where the rows of these key-groups lie; None is the end of everything."""
    after = last_group + 1
    return struct.pack(">H", first_group), struct.pack(">H", after) if after < 1 << 16 else None


def prefix_end(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix, which is not all ones."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def sorted_keys(row_keys: Sequence[bytes]) -> tuple[list[bytes], Order]:
    """Row keys in the order in which they lie, and where each of them was."""
    order = sorted(range(len(row_keys)), key=row_keys.__getitem__)
    return list(map(row_keys.__getitem__, order)), np.array(order, np.int64)


class RowKeys:
    """The row keys of a state without a namespace.

    ``is_map`` says that each entry of a key has its own row.
    """

    def __init__(
        self, number: int, stored: StoredKey, max_parallelism: int, *, is_map: bool
    ) -> None:
        self.number = number
        self._stored = stored
        self._key = key = stored.key
        self._cells = cells_of(key, is_key=True)
        self._max_parallelism = max_parallelism
        self._is_map = is_map
        self._is_whole = pa.types.is_integer(key.arrow)
        self._width = key.arrow.bit_width // 8 if self._is_whole else 0

    def of(self, kept: Sequence[Any]) -> list[bytes]:
        """The row keys of keys as they are kept; of a map, what its entries begin with."""
        if self._is_whole and len(kept) < FEW and None not in kept:
            return [self._of_whole(number) for number in kept]
        column = self._key.to_array(kept)
        return self.of_column(column, self._stored.groups(column, self._max_parallelism))

    def _of_whole(self, number: int) -> bytes:
        """The row key of one whole number: a column of one would cost many times as much."""
        head = PREFIX.pack(hash_of_whole(number) % self._max_parallelism, self.number)
        cell = b"\1" + number.to_bytes(self._width, "little", signed=True)
        return head + (LENGTH.pack(len(cell)) + cell if self._is_map else cell)

    def of_column(self, column: pa.Array, groups: Groups) -> list[bytes]:
        heads = self._heads(groups)
        cells = self._cells
        if isinstance(cells, FixedCells) and not column.null_count and not self._is_map:
            ones = np.ones((len(column), 1), np.uint8)
            return as_bytes(np.hstack([heads, ones, cells.matrix(column)]))
        is_null = column.is_null().to_pylist()
        keys = [
            b"\0" if null else b"\1" + cell
            for null, cell in zip(is_null, cells.encode(column), strict=True)
        ]
        if self._is_map:
            keys = [LENGTH.pack(len(key)) + key for key in keys]
        return [head + key for head, key in zip(as_bytes(heads), keys, strict=True)]

    def in_order(self, column: pa.Array, groups: Groups) -> tuple[list[bytes], Order]:
        """The row keys of a column in the order in which they lie, and the row of each.

        Those that are equal stay in the order of their rows.
        """
        cells = self._cells
        is_one_by_one = column.null_count or self._is_map
        if is_one_by_one or not isinstance(cells, FixedCells) or cells.width > _WORD_BYTES:
            return sorted_keys(self.of_column(column, groups))
        matrix = cells.matrix(column)
        # As large numbers, of which the first byte counts most: as row keys are compared.
        words = np.zeros((len(column), _WORD_BYTES), np.uint8)
        words[:, : cells.width] = matrix
        order = np.argsort(words.view(">u8").ravel().astype(np.uint64), kind="stable")
        order = order[np.argsort(groups[order], kind="stable")]
        ones = np.ones((len(column), 1), np.uint8)
        return as_bytes(np.hstack([self._heads(groups[order]), ones, matrix[order]])), order

    def _heads(self, groups: Groups) -> npt.NDArray[np.uint8]:
        heads = np.empty((len(groups), PREFIX.size), np.uint8)
        heads[:, :2] = groups.astype(">u2").view(np.uint8).reshape(-1, 2)
        heads[:, 2:] = np.frombuffer(struct.pack(">H", self.number), np.uint8)
        return heads

    def entry_cell(self, row_key: bytes) -> tuple[bytes, bytes]:
        """The row key of a map's entry divided: what is the key's, and the cell of the map key."""
        (length,) = LENGTH.unpack_from(row_key, PREFIX.size)
        end = PREFIX.size + LENGTH.size + length
        return row_key[:end], row_key[end:]

    def keys(self, row_keys: Sequence[bytes]) -> list[Any]:
        """The keys of row keys, as they are kept."""
        start = PREFIX.size + (LENGTH.size if self._is_map else 0)
        found: list[Any] = [None] * len(row_keys)
        there = [number for number, row_key in enumerate(row_keys) if row_key[start]]
        cells = [row_keys[number][start + 1 :] for number in there]
        for number, kept in zip(there, self._cells.decode(cells), strict=True):
            found[number] = kept
        return found
