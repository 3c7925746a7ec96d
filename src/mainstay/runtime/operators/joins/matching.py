"""Which rows of two sides belong together: by key and by a range of time, without a loop over rows.

Rows of one side are brought into the order of their keys and times. What a row of the other side
matches is then one range, whose ends are found by binary search, for all rows at once.

This is a hot file (benchmarks/interval_join.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.state.grouping import is_word, words_of
from mainstay.state.hashing import hash_columns

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MOST_PAIRS = 1 << 16
"""Pairs of rows that are made at a time."""
_MOST = 1 << 62
NO_TIME = -(1 << 62)


def words_for(keys: pa.Array) -> Numbers:
    """A number for each key, equal where keys are equal; see ``are_exact``. None may be null."""
    if is_word(keys.type):
        return words_of(keys)
    return hash_columns([keys]).view(np.int64)


def are_exact(key: pa.DataType) -> bool:
    """Whether keys with the same number are the same key: what has at most 64 bits has a number of
    its own."""
    return bool(is_word(key) or pa.types.is_boolean(key) or pa.types.is_floating(key))


def are_equal(first: pa.Array, second: pa.Array) -> Mask:
    """Which keys of two columns are the same. None may be null."""
    if pa.types.is_struct(first.type):
        fields = zip(first.flatten(), second.flatten(), strict=True)
        same: Mask = np.logical_and.reduce([are_equal(one, other) for one, other in fields])
        return same
    if are_exact(first.type):
        return np.equal(words_for(first), words_for(second))
    found: Mask = pc.equal(first, second).to_numpy(zero_copy_only=False)
    return found


def have_no_null(keys: pa.Array) -> Mask | None:
    """Which keys have a value in each column, and in each field of a struct; None if all have. A
    null equals nothing."""
    valid = [
        column.is_valid().to_numpy(zero_copy_only=False)
        for column in _with_fields(keys)
        if column.null_count
    ]
    return np.logical_and.reduce(valid) if valid else None


def _with_fields(column: pa.Array) -> Iterator[pa.Array]:
    """A column, and the fields of a struct at any depth."""
    yield column
    if pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _with_fields(field)


class Sorted:
    """Rows in the order of their keys and times. Of equal ones the one that came later is later."""

    __slots__ = ("_first", "_places", "_span", "_ticks", "_words", "order")

    def __init__(self, words: Numbers, times: Numbers) -> None:
        self._words, codes = np.unique(words, return_inverse=True)
        self._first = int(times.min(initial=_MOST))
        self._span = int(times.max(initial=-_MOST)) - self._first + 1
        self._ticks: Numbers | None = None
        if len(self._words) * max(self._span, 1) >= _MOST:
            # Too far apart for one number: by their rank among all times.
            self._ticks = np.unique(times)
            times, self._first = np.searchsorted(self._ticks, times), 0
            self._span = len(self._ticks)
        places = codes * self._span + (times - self._first)
        self.order: npt.NDArray[np.intp] = np.argsort(places, kind="stable")
        self._places = places[self.order]

    def ranges(self, words: Numbers, low: Numbers, high: Numbers) -> tuple[Numbers, ...]:
        """Which of some rows have a key that is here, and where in ``order`` those of the key from
        one time to another, both included, begin and end.

        It is several times as quick where ``words`` are in order.
        """
        codes = np.searchsorted(self._words, words)
        codes[codes == len(self._words)] = 0
        known = np.flatnonzero(self._words[codes] == words)
        base = codes[known] * self._span
        start = np.searchsorted(self._places, base + self._offset(low[known]))
        end = np.searchsorted(self._places, base + self._offset(high[known] + 1))
        return known, start, np.maximum(end, start)

    def newest(self, words: Numbers, times: Numbers) -> Numbers:
        """The place in ``order`` of the newest row of each key that is not newer than a time; -1
        where there is none."""
        known, start, end = self.ranges(words, np.full(len(times), NO_TIME), times)
        found = np.full(len(words), -1, np.int64)
        found[known] = np.where(end > start, end - 1, -1)
        return found

    def _offset(self, times: Numbers) -> Numbers:
        if self._ticks is not None:
            found: Numbers = np.searchsorted(self._ticks, times)
            return found
        return np.clip(times, self._first, self._first + self._span) - self._first


def pairs(rows: Numbers, start: Numbers, end: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Each row with each place of its range: the numbers of rows and the places, some at a time."""
    counts = end - start
    if not counts.all():
        there = counts > 0
        rows, start, counts = rows[there], start[there], counts[there]
    if not len(rows):
        return
    ends = np.cumsum(counts)
    at = 0
    while at < len(rows):
        before = int(ends[at - 1]) if at else 0
        upto = max(at + 1, int(np.searchsorted(ends, before + MOST_PAIRS, "right")))
        many = counts[at:upto]
        first = np.repeat(start[at:upto] - (ends[at:upto] - many - before), many)
        yield np.repeat(rows[at:upto], many), first + np.arange(len(first))
        at = upto
