"""Distinct values of many keys, one after the other: what a batch adds to the sets of its keys.

This is a hot file (benchmarks/distinct_path.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.growing import FEW, Distinct, Elements, Few

Lengths = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]


class ValueLists:
    """A list of distinct values for each key. ``flat`` has all of them: words, or a column."""

    __slots__ = ("_elements", "flat", "lengths")

    def __init__(self, elements: Elements, flat: Any, lengths: Lengths) -> None:
        self._elements = elements
        self.flat = flat
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, which: Any) -> ValueLists:
        """Those of some keys: a slice, a mask, or positions."""
        starts = np.cumsum(self.lengths) - self.lengths
        lengths = self.lengths[which]
        places = places_of(starts[which], lengths)
        return ValueLists(self._elements, taken(self.flat, places), lengths)

    def column(self) -> pa.Array:
        """The values of all keys."""
        return self._elements.column(self.flat) if self._elements.are_words else self.flat

    def tolist(self) -> list[Few | Distinct]:
        """What is kept for each key where that is kept by itself."""
        elements = self._elements
        flat = self.flat if elements.are_words else elements.flat(self.flat)
        values, start, found = flat.tolist(), 0, []
        for end in np.cumsum(self.lengths).tolist():
            is_few = end - start <= FEW
            part = tuple(values[start:end]) if is_few else Distinct(elements, flat[start:end])
            found.append(part)
            start = end
        return found


def places_of(starts: Places, lengths: Lengths) -> Places:
    """The places from each start on, as many as it has, one run after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


def taken(flat: Any, places: Places) -> Any:
    """Some of the values of lists."""
    return flat[places] if isinstance(flat, np.ndarray) else flat.take(pa.array(places))
