"""Distinct values of a column: what ``count_distinct`` keeps for each key.

A partial result is a list of distinct values. Within a batch a value counts once for each key,
which is found out by columns; only what is left is added to the sets, key by key.

This is a hot file (benchmarks/distinct_path.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema.sizes import TooLargeError, in_one
from mainstay.state.aggregates import Accumulator
from mainstay.state.grouping import Groups
from mainstay.state.growing import (
    FEW,
    Distinct,
    Elements,
    Few,
    distinct_pairs,
    joined,
    lengths_of,
)
from mainstay.state.partials import Accumulating, Column, lists_of_one, objects

_MOST_ELEMENTS = 1 << 31
"""What the offsets of a list array reach up to."""


class DistinctValues(Accumulating):
    """A growing set for each key."""

    dtype = np.dtype(object)
    empty: Any = ()
    may_be_null = False
    is_shared = True

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator)
        self._elements = Elements(accumulator.type.value_type)

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        return lists_of_one(self.given(batch), self.type)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        if groups.codes is None:
            return self.from_arrow(partials)
        column, lengths = partials.flatten(), lengths_of(partials)
        flat = self._elements.flat(column)
        codes = np.repeat(groups.codes, lengths)
        rows = distinct_pairs(codes, self._elements.codes(column, flat))
        return self._divided(flat[rows], np.bincount(codes[rows], minlength=groups.count))

    def _divided(self, flat: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> Column:
        """Values in the order of their keys, and how many each key has."""
        elements, ends = self._elements, np.cumsum(lengths)
        if lengths.min(initial=FEW + 1) > FEW:
            parts = np.split(flat, ends[:-1]) if len(ends) else []
            return objects([Distinct(elements, part) for part in parts]), None
        values, start, found = flat.tolist(), 0, []
        for end in ends.tolist():
            is_few = end - start <= FEW
            part = tuple(values[start:end]) if is_few else Distinct(elements, flat[start:end])
            found.append(part)
            start = end
        return objects(found), None

    def merge(self, old: Column, new: Column) -> Column:
        elements = self._elements
        pairs = zip(old[0].tolist(), new[0].tolist(), strict=True)
        return objects([joined(elements, kept, given) for kept, given in pairs]), None

    def from_arrow(self, column: pa.Array) -> Column:
        # They were distinct when they were stored or sent.
        return self._divided(self._elements.flat(column.flatten()), lengths_of(column))

    def to_arrow(self, column: Column) -> pa.Array:
        kept = column[0].tolist()
        ends = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(self.elements(column), out=ends[1:])
        if ends[-1] >= _MOST_ELEMENTS:
            raise TooLargeError
        values = self._elements.column(self._flat(kept, int(ends[-1])))
        offsets = pa.array(ends.astype(np.int32))
        return in_one(pa.ListArray.from_arrays(offsets, values, type=self.type))

    def result(self, column: Column) -> pa.Array:
        return pa.array(self.elements(column))

    def _flat(self, kept: list[Any], total: int) -> npt.NDArray[Any]:
        """The values of all keys, one after the other."""
        if all(type(each) is tuple for each in kept):
            return np.fromiter(chain.from_iterable(kept), self._elements.dtype, total)
        return np.concatenate([self._elements.flat_of(each) for each in kept])

    def elements(self, column: Column) -> npt.NDArray[np.int64]:
        return np.fromiter(map(len, column[0].tolist()), np.int64, len(column[0]))

    # Rows in memory hold sets that grow as they are, or each fold would copy them. A few values are
    # held as they are stored.

    def from_held(self, held: Sequence[Any]) -> Column:
        return objects([() if each is None else self._taken(each) for each in held]), None

    def _taken(self, held: Any) -> Any:
        if isinstance(held, Distinct) or (self._elements.are_values and len(held) <= FEW):
            return held
        flat = self._elements.flat(self._elements.value.to_array(held))
        return tuple(flat.tolist()) if len(flat) <= FEW else Distinct(self._elements, flat)

    def to_held(self, column: Column) -> Sequence[Any]:
        kept: list[Any] = column[0].tolist()
        if self._elements.are_values:
            return kept
        return [each if isinstance(each, Distinct) else self._held_few(each) for each in kept]

    def _held_few(self, few: Few) -> Sequence[Any]:
        return tuple(Distinct(self._elements, self._elements.flat_of(few)))
