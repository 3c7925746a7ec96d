"""Values of any type by slot, in chunks of columns: what replaces a value is written behind it.

A value has a number, which says in which chunk it lies and where. What is overwritten stays where
it was until its chunk is put together with others, which leaves it behind. That happens when there
are too many chunks to gather from, or when little of a chunk still counts: so a value is copied a
few times, however often others change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

MOST_CHUNKS = 8
"""More are put together, as far as they are of a size."""
MOST_BYTES = 1 << 28
"""Beyond this chunks are not put together."""
FEW = 1 << 10
"""Values of which it does not matter how many count."""


class _Chunk:
    """Values from a number on, with the slots that they were written for."""

    __slots__ = ("counting", "first", "size_bytes", "slots", "values")

    def __init__(self, first: int, slots: Numbers, values: pa.Array) -> None:
        self.first, self.slots, self.values = first, slots, values
        self.counting = len(slots)
        self.size_bytes = int(values.nbytes)

    @property
    def is_sparse(self) -> bool:
        return len(self.slots) > 4 * self.counting + FEW


class ChunkedValues:
    """One value for each slot, or none."""

    def __init__(self, arrow: pa.DataType) -> None:
        self._arrow = arrow
        self._chunks: list[_Chunk] = []
        self._numbers = np.full(FEW, -1, np.int64)
        self._next = 0

    def grow(self, slots: int) -> None:
        """Have room for so many slots."""
        if slots > len(self._numbers):
            more = np.full(max(slots, 2 * len(self._numbers)), -1, np.int64)
            more[: len(self._numbers)] = self._numbers
            self._numbers = more

    def take(self, slots: Numbers) -> pa.Array:
        """The values of some slots; null where there is none."""
        numbers = self._numbers[slots]
        if len(self._chunks) == 1:
            (chunk,) = self._chunks
            return chunk.values.take(pa.array(numbers - chunk.first, mask=numbers < 0))
        return self._gathered(numbers)

    def _gathered(self, numbers: Numbers) -> pa.Array:
        """Chunk by chunk, and then in order: to take from many arrays at once costs as much as all
        that is in them."""
        where = np.searchsorted([chunk.first for chunk in self._chunks], numbers, "right") - 1
        found, places = [], []
        for position, chunk in enumerate(self._chunks):
            here = np.flatnonzero(where == position)
            if len(here):
                places.append(here)
                found.append(chunk.values.take(pa.array(numbers[here] - chunk.first)))
        if not found:
            return pa.nulls(len(numbers), self._arrow)
        order = np.full(len(numbers), -1, np.int64)
        order[np.concatenate(places)] = np.arange(sum(map(len, places)))
        return pa.concat_arrays(found).take(pa.array(order, mask=order < 0))

    def put(self, slots: Numbers, values: pa.Array) -> None:
        """Keep values for some distinct slots."""
        if len(slots):
            self._leave(self._numbers[slots])
            self._append(slots, values)
            self._tidy()

    def _append(self, slots: Numbers, values: pa.Array) -> None:
        self._numbers[slots] = np.arange(self._next, self._next + len(slots))
        self._chunks.append(_Chunk(self._next, slots, values))
        self._next += len(slots)

    def _leave(self, numbers: Numbers) -> None:
        """These count no more."""
        firsts = [chunk.first for chunk in self._chunks]
        left = np.searchsorted(firsts, numbers[numbers >= 0], "right") - 1
        for number, fewer in enumerate(np.bincount(left).tolist()):
            self._chunks[number].counting -= fewer

    def counting(self) -> list[tuple[Numbers, pa.Array]]:
        """The slots that have a value, and the values, chunk by chunk."""
        return [self._counting(chunk) for chunk in self._chunks if chunk.counting]

    def _counting(self, chunk: _Chunk) -> tuple[Numbers, pa.Array]:
        if chunk.counting == len(chunk.slots):
            return chunk.slots, chunk.values
        numbers = np.arange(chunk.first, chunk.first + len(chunk.slots))
        rows = np.flatnonzero(self._numbers[chunk.slots] == numbers)
        return chunk.slots[rows], chunk.values.take(pa.array(rows))

    # ------------------------------------------------------------ putting together

    def _tidy(self) -> None:
        self._chunks = [chunk for chunk in self._chunks if chunk.counting]
        if len(self._chunks) > MOST_CHUNKS:
            for run in _runs(self._chunks):
                if len(run) > 1:
                    self._join(run)
        if sparse := [chunk for chunk in self._chunks if chunk.is_sparse]:
            self._join(sparse)

    def _join(self, old: list[_Chunk]) -> None:
        """Put what counts of some chunks behind all others."""
        found = [self._counting(chunk) for chunk in old]
        self._chunks = [chunk for chunk in self._chunks if chunk not in old]
        slots, values = zip(*found, strict=True)
        self._append(np.concatenate(slots), pa.concat_arrays(values))


def _runs(chunks: list[_Chunk]) -> list[list[_Chunk]]:
    """What is to be put together, so that each is at least twice as large as the next smaller."""
    runs: list[tuple[list[_Chunk], int, int]] = []
    for chunk in sorted(chunks, key=lambda chunk: -chunk.counting):
        runs.append(([chunk], chunk.counting, chunk.size_bytes))
        while len(runs) > 1:
            (larger, many, large), (smaller, few, small) = runs[-2:]
            if many >= 2 * few or large + small > MOST_BYTES:
                break
            runs[-2:] = [(larger + smaller, many + few, large + small)]
    return [run for run, _, _ in runs]
