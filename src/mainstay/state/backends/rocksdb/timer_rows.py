"""Rows that put the timers of a database in order. Part of the durable format, version 4.

::

    key-group | number of the state, highest bit set | time, 8 bytes | the key

A time is microseconds since 1970, big endian with the sign turned over: within a key-group rows lie
in the order of their times. The value of such a row is empty. It says nothing that the row of the
timer itself does not say, and is written with it: so snapshots, savepoints and other backends know
nothing of these rows, and they are made again from the rows of timers wherever they are missing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mainstay.state.backends.cached.rows import PREFIX, RowKeys, prefix_end
from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.stored_key import StoredKey

ORDER = 1 << 15
"""What the number of a state has beside it in the rows that order its timers."""
_NUMBER = struct.Struct(">H")
_TIME = struct.Struct(">Q")
_STORED_TIME = struct.Struct("<q")
_LENGTH_BYTES = 4
_SIGN = 1 << 63
_KEY_AT = PREFIX.size + _TIME.size


def time_cell(at: int) -> bytes:
    """Bytes that sort as times do."""
    return _TIME.pack(at + _SIGN)


class TimerRows:
    """The rows by time of one state of timers.

    ``is_pair`` says that a timer is stored under key and time, and not as the value of a key.
    """

    def __init__(self, number: int, stored: StoredKey, max_parallelism: int) -> None:
        self.is_pair = stored.namespace is not None
        self.number = number
        self._key = StoredKey.of(stored.key)
        self._max_parallelism = max_parallelism
        # Only to make keys of bytes again: where rows lie is said here.
        self._keys = RowKeys(0, self._key, max_parallelism, is_map=False)

    def range_of(self, group: int) -> tuple[bytes, bytes]:
        """What the rows of a key-group begin with, and what comes behind them."""
        start = PREFIX.pack(group, self.number | ORDER)
        return start, prefix_end(start)

    def groups_of(self, keys: Sequence[Any]) -> list[int]:
        column = self._key.type.to_array(keys)
        found: list[int] = self._key.groups(column, self._max_parallelism).tolist()
        return found

    def timers(self, row_keys: Sequence[bytes]) -> list[tuple[int, Any]]:
        """The time and the key of each row."""
        unpack = _TIME.unpack_from
        times = [unpack(row_key, PREFIX.size)[0] - _SIGN for row_key in row_keys]
        bare = [row_key[: PREFIX.size] + row_key[_KEY_AT:] for row_key in row_keys]
        return list(zip(times, self._keys.keys(bare), strict=True))

    # ------------------------------------------------------------ with the rows of timers

    def of(self, row_key: bytes, cell: bytes) -> bytes:
        """The row by time of a timer, from the row of the timer itself."""
        head = row_key[:2] + _NUMBER.pack(self.number | ORDER)
        if self.is_pair:
            start = PREFIX.size + _LENGTH_BYTES
            return head + row_key[-_TIME.size :] + row_key[start : -_TIME.size]
        return head + time_cell(_STORED_TIME.unpack(cell)[0]) + row_key[PREFIX.size :]

    def changes(
        self, database: StoredRows, changes: Mapping[bytes, bytes | None]
    ) -> tuple[dict[bytes, bytes | None], int]:
        """What changes in the order when rows of timers do, before the database has those; and
        how many timers there are more then."""
        row_keys = sorted(changes)
        # A key of declared timers has one time: that which it had is taken out of the order.
        before = zip(row_keys, database.get_many(row_keys), strict=True)
        order: dict[bytes, bytes | None] = {
            self.of(row_key, cell): None for row_key, cell in before if cell is not None
        }
        fewer = len(order)
        there = [(row_key, cell) for row_key, cell in changes.items() if cell is not None]
        for row_key, cell in there:
            order[self.of(row_key, cell)] = b""
        return order, len(there) - fewer

    def with_order(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Rows of timers that nothing is known of yet, and what puts them in order."""
        for row_key, cell in rows:
            yield row_key, cell
            yield self.of(row_key, cell), b""
