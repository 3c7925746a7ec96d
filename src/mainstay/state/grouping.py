"""Grouping: which rows of a batch have the same key.

Whole numbers, dates and timestamps are grouped by writing each row's number into a table at a
place that follows from its key and reading it back: rows of one key read the same number. The
table is never cleared, since only places that were just written are read. Two keys that share a
place are told apart by their values, and the rows of the loser go through another round. This
takes a few nanoseconds a row where encoding by dictionary takes tens.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.codes import codes_of

Words = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]

_MULTIPLIERS = [
    np.uint64(word)
    for word in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
]
_SPREAD = 4
"""Places in the table for each row."""
_NARROW = 1 << 20
"""A range of keys that is no wider needs no hash: each has a place of its own."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a batch's rows. ``rows[i]`` is a row of group ``i``.

    ``codes`` says the group of each row; None where every row is a group by itself, in order.
    """

    rows: Rows
    codes: Rows | None

    @property
    def count(self) -> int:
        return len(self.rows)


def is_word(arrow: pa.DataType) -> bool:
    """Whether values of a type are whole numbers underneath."""
    return bool(
        pa.types.is_integer(arrow) or pa.types.is_date32(arrow) or pa.types.is_timestamp(arrow)
    )


def words_of(column: pa.Array) -> Words:
    """The numbers under a column of whole numbers, dates or timestamps; anything for nulls."""
    width = column.type.bit_width // 8
    if not len(column):
        return np.empty(0, np.int64)
    numbers = np.frombuffer(column.buffers()[1], f"<i{width}", len(column), column.offset * width)
    return numbers.astype(np.int64, copy=False)


def scattered(words: Words, bits: int, round_: int = 0) -> Words:
    """A number of ``bits`` bits for each word: a hash, and in each round another one."""
    first, second = (_MULTIPLIERS[(round_ + n) % len(_MULTIPLIERS)] for n in range(2))
    product = words.view(np.uint64) * first
    # Once more, or numbers at equal distances would lie close together.
    product ^= product >> np.uint64(29 + round_ % 7)
    product *= second
    product >>= np.uint64(64 - bits)
    return product.view(np.int64)


class Grouper:
    """Groups batches by key. It keeps its table from batch to batch, and nothing else."""

    def __init__(self) -> None:
        self._table = np.empty(0, np.int64)

    def group(self, keys: pa.Array) -> Groups:
        if len(keys) == 1:
            return Groups(np.zeros(1, np.int64), None)
        if is_word(keys.type) and not keys.null_count:
            return self._words(words_of(keys))
        codes = codes_of(keys)
        rows = np.empty(int(codes.max(initial=-1)) + 1, np.int64)
        # Assigned backwards, so that the first row of each code stays.
        rows[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        return Groups(rows, codes)

    def are_last(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Which rows are the last ones of their key; None where that is not quick to say."""
        if not is_word(keys.type) or keys.null_count:
            return None
        every = np.arange(len(keys))
        # Numbers are written in order, so what stays is the last row of each key.
        same = self._same(words_of(keys), every) if len(every) else every
        return np.equal(same, every)

    def _words(self, words: Words) -> Groups:
        count = len(words)
        every = np.arange(count)
        if not count:
            return Groups(every, None)
        same = self._same(words, every)
        rows = np.flatnonzero(same == every)
        if len(rows) == count:
            return Groups(rows, None)
        rank = self._table[:count]
        rank[rows] = every[: len(rows)]
        return Groups(rows, rank[same])

    def _same(self, words: Words, every: Rows) -> Rows:
        """For each row, the number of one row that has the same key: one and the same for all."""
        low = int(words.min())
        size = int(words.max()) - low + 1
        if size <= max(_NARROW, _SPREAD * len(words)):
            table = self._places(max(size, len(words)))
            places = words - low
            table[places] = every
            return table[places]
        same = every.copy()
        left = every
        round_ = 0
        while len(left):
            keys = words[left]
            places, table = self._hashed(keys, round_)
            table[places] = left
            found = table[places]
            won = words[found] == keys
            same[left[won]] = found[won]
            left = left[~won]
            round_ += 1
        return same

    def _hashed(self, words: Words, round_: int) -> tuple[Words, Rows]:
        bits = max(4, (_SPREAD * len(words) - 1).bit_length())
        return scattered(words, bits, round_), self._places(1 << bits)

    def _places(self, size: int) -> Rows:
        if len(self._table) < size:
            self._table = np.empty(max(size, 2 * len(self._table)), np.int64)
        return self._table
