"""Lanes of spans: what is kept for a span is put anew whenever it changes, also sets of values.

So each set is kept by itself. A segment holds what a set has more than files have of it, where that
is known; where spans were merged it is not, and the whole of it is put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.backends.heap.lanes import Lane
from mainstay.state.distinct import DistinctValues
from mainstay.state.growing import continues, rest_of
from mainstay.state.info import StateInfo
from mainstay.state.operations import APPEND, PUT, may_append
from mainstay.state.partials import objects
from mainstay.state.slots import Slots


class GrownLane(Lane):
    """Sets by place. What is taken of one is a pair: the set, and what files have of it."""

    __slots__ = ("_stored",)
    part: DistinctValues

    def __init__(self, part: DistinctValues) -> None:
        super().__init__(part)
        self._stored = np.empty(0, np.dtype(object))

    def grow(self, capacity: int) -> None:
        super().grow(capacity)
        before = len(self._stored)
        self._stored.resize(capacity, refcheck=False)
        self._stored[before:] = None

    def clear(self, slots: Slots) -> None:
        super().clear(slots)
        self._stored[slots] = None

    def take(self, slots: Slots) -> Column:
        values, stored = self._values[slots], self._stored[slots]
        self._stored[slots] = values
        return objects(list(zip(values.tolist(), stored.tolist(), strict=True))), None

    def are_stored(self, slots: Slots) -> None:
        """Files have what is kept."""
        self._stored[slots] = self._values[slots]

    def store_again(self, slots: Slots) -> None:
        self._stored[slots] = None

    def to_arrow(self, column: Column) -> pa.Array:
        rest = [rest_of(self.part.values, *each) for each in column[0].tolist()]
        return self.part.to_arrow((objects(rest), None))


def span_lanes(parts: Sequence[Accumulating], info: StateInfo) -> list[Lane]:
    """A lane for each accumulator of spans."""
    grow = [isinstance(part, DistinctValues) for part in parts]
    if not may_append(info.value.arrow, grow):
        return [Lane(part) for part in parts]
    return [GrownLane(part) if isinstance(part, DistinctValues) else Lane(part) for part in parts]


def said(lanes: Sequence[Lane], columns: Sequence[Column]) -> tuple[pa.Array, list[Column]]:
    """What is done with taken rows, and the columns of that."""
    pairs = list(zip(lanes, columns, strict=True))
    grown = [column[0] for lane, column in pairs if isinstance(lane, GrownLane)]
    appended = np.full(len(columns[0][0]), bool(grown))
    for values in grown:
        appended &= np.fromiter((_is_known(*each) for each in values.tolist()), np.bool_)
    ops = pa.array(np.where(appended, APPEND, PUT).astype(np.int8))
    return ops, [_put(lane, column, appended) for lane, column in pairs]


def _is_known(values: Any, stored: Any) -> bool:
    return stored is not None and continues(values, stored)


def _put(lane: Lane, column: Column, appended: npt.NDArray[np.bool_]) -> Column:
    """Of rows that are put as a whole, the whole."""
    if not isinstance(lane, GrownLane) or appended.all():
        return column
    values = [
        pair if is_appended else (pair[0], None)
        for pair, is_appended in zip(column[0].tolist(), appended.tolist(), strict=True)
    ]
    return objects(values), None
