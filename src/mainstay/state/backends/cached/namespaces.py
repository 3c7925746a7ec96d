"""Row keys of states with a namespace. Part of the durable format, version 1.

::

    key-group | number of the state | length of the key | the key | the namespace

up to the key as a map's (see ``rows``), so that all namespaces of a key are one range. A namespace
that is a whole number, a date or a timestamp is eight bytes, big endian with the sign turned over:
within the range rows lie in the order of their namespaces. Any other is its length and its cell. In
a map the cell of the map key comes last.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from mainstay.state.backends.cached.cells import FEW, LENGTH, as_bytes, cells_of
from mainstay.state.backends.cached.rows import Groups, Order, RowKeys, sorted_keys
from mainstay.state.grouping import is_word, words_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

_SIGN = np.uint64(1 << 63)
_ORDERED_BYTES = 8
_EPOCH = datetime(1970, 1, 1)  # for what has no zone
_EPOCH_UTC = _EPOCH.replace(tzinfo=timezone.utc)
_DAY_US, _SECOND_US = 86_400_000_000, 1_000_000


class NamespacedRowKeys:
    """The row keys of one state with a namespace: what ``RowKeys`` is to others."""

    def __init__(self, number: int, stored: StoredKey, max_parallelism: int) -> None:
        assert stored.namespace is not None
        self._keys = RowKeys(number, StoredKey.of(stored.key), max_parallelism, is_map=True)
        self._namespaces = namespace_cells(stored.namespace)

    @property
    def number(self) -> int:
        return self._keys.number

    @number.setter
    def number(self, number: int) -> None:
        self._keys.number = number

    def of(self, kept: Sequence[tuple[Any, Any]]) -> list[bytes]:
        """The row keys of pairs; of a map, what its entries begin with."""
        keys, namespaces = zip(*kept, strict=True) if kept else ((), ())
        return _joined(self._keys.of(keys), self._namespaces.of(namespaces))

    def of_column(self, column: pa.Array, groups: Groups) -> list[bytes]:
        keys, namespaces = column.flatten()
        return _joined(self._keys.of_column(keys, groups), self._namespaces.encode(namespaces))

    def in_order(self, column: pa.Array, groups: Groups) -> tuple[list[bytes], Order]:
        """Row keys in the order in which they lie, and the row of each."""
        return sorted_keys(self.of_column(column, groups))

    def range_of(self, key: Any) -> bytes:
        """What the rows of all namespaces of a key begin with."""
        return self._keys.of([key])[0]

    def entry_cell(self, row_key: bytes) -> tuple[bytes, bytes]:
        """The row key of a map's entry divided: what is the pair's, and the cell of the map key."""
        prefix, rest = self._keys.entry_cell(row_key)
        end = len(prefix) + self._namespaces.length(rest)
        return row_key[:end], row_key[end:]

    def keys(self, row_keys: Sequence[bytes]) -> list[Any]:
        """The pairs of row keys, as they are kept."""
        parts = [self._keys.entry_cell(row_key) for row_key in row_keys]
        keys = self._keys.keys([prefix for prefix, _ in parts])
        namespaces = self._namespaces.decode([namespace for _, namespace in parts])
        return list(zip(keys, namespaces, strict=True))


def row_keys_of(
    number: int, stored: StoredKey, max_parallelism: int, *, is_map: bool
) -> RowKeys | NamespacedRowKeys:
    """The row keys of a state."""
    if stored.namespace is None:
        return RowKeys(number, stored, max_parallelism, is_map=is_map)
    return NamespacedRowKeys(number, stored, max_parallelism)


class NamespaceCells(Protocol):
    """The bytes of namespaces of one type, each of which says where it ends."""

    def of(self, kept: Sequence[Any]) -> list[bytes]: ...
    def encode(self, column: pa.Array) -> list[bytes]: ...
    def length(self, data: bytes) -> int:
        """How many of these bytes are the namespace's."""

    def decode(self, cells: Sequence[bytes]) -> list[Any]: ...


def namespace_cells(namespace: ValueType) -> NamespaceCells:
    return _Ordered(namespace) if is_word(namespace.arrow) else _Delimited(namespace)


class _Ordered:
    """Whole numbers, dates and timestamps: their bytes sort as they do."""

    def __init__(self, namespace: ValueType) -> None:
        self._type = namespace
        arrow = namespace.arrow
        self._is_moment = pa.types.is_timestamp(arrow) and arrow.unit == "us"

    def of(self, kept: Sequence[Any]) -> list[bytes]:
        if len(kept) < FEW and self._is_moment:
            # A column of one would cost many times as much.
            return [struct.pack(">Q", _microseconds(at) + (1 << 63)) for at in kept]
        return self.encode(self._type.to_array(kept))

    def encode(self, column: pa.Array) -> list[bytes]:
        turned = words_of(column).view(np.uint64) ^ _SIGN
        return as_bytes(turned.astype(">u8").view(np.uint8).reshape(-1, _ORDERED_BYTES))

    def length(self, data: bytes) -> int:
        return _ORDERED_BYTES

    def decode(self, cells: Sequence[bytes]) -> list[Any]:
        turned = np.frombuffer(b"".join(cells), ">u8").astype(np.uint64) ^ _SIGN
        words = turned.view(np.int64).astype(f"<i{self._type.arrow.bit_width // 8}")
        buffers = [None, pa.py_buffer(words)]
        return self._type.from_array(pa.Array.from_buffers(self._type.arrow, len(words), buffers))


def _microseconds(at: datetime) -> int:
    since = at - (_EPOCH if at.tzinfo is None else _EPOCH_UTC)
    return since.days * _DAY_US + since.seconds * _SECOND_US + since.microseconds


class _Delimited:
    """Namespaces of any other type: the length comes first."""

    def __init__(self, namespace: ValueType) -> None:
        self._type = namespace
        self._cells = cells_of(namespace, is_key=True)

    def of(self, kept: Sequence[Any]) -> list[bytes]:
        return self.encode(self._type.to_array(kept))

    def encode(self, column: pa.Array) -> list[bytes]:
        return [LENGTH.pack(len(cell)) + cell for cell in self._cells.encode(column)]

    def length(self, data: bytes) -> int:
        return int(LENGTH.size + LENGTH.unpack_from(data)[0])

    def decode(self, cells: Sequence[bytes]) -> list[Any]:
        return self._cells.decode([cell[LENGTH.size :] for cell in cells])


def _joined(keys: Sequence[bytes], namespaces: Sequence[bytes]) -> list[bytes]:
    return [key + namespace for key, namespace in zip(keys, namespaces, strict=True)]
