"""Distinct values of a column: what ``count_distinct`` keeps for each key.

A partial result is a list of distinct values. Within a batch a value counts once for each key,
which is found out by columns; what is left is added to the sets of its keys.

A column of partial results is one of ``ValueLists``. What is kept is ``KeptSets`` where the sets of
all keys lie in arrays, and else an array with a set for each key (``growing``).

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
from mainstay.state.key_sets import KeptSets, KeySets
from mainstay.state.partials import Accumulating, Column, lists_of_one, objects
from mainstay.state.value_lists import ValueLists, taken

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
        self.values = Elements(accumulator.type.value_type)

    def sets(self) -> KeySets:
        """Sets of such values for many keys."""
        return KeySets(self.values)

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        return lists_of_one(self.given(batch), self.type)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        lists, lengths = self.lists(partials), lengths_of(partials)
        if groups.codes is None:
            return lists, None  # type: ignore[return-value]
        return self._combined(
            partials.flatten(), lists.flat, np.repeat(groups.codes, lengths), groups
        )

    def combine_rows(self, batch: pa.RecordBatch, groups: Groups) -> Column:
        codes = np.arange(groups.count) if groups.codes is None else groups.codes
        given = self.given(batch)
        if given.null_count:
            codes = codes[given.is_valid().to_numpy(zero_copy_only=False)]
            given = given.drop_null()
        return self._combined(given, self.values.packed(given), codes, groups)

    def _combined(self, column: pa.Array, flat: Any, codes: Any, groups: Groups) -> Column:
        rows = distinct_pairs(codes, self.values.codes(column, flat))
        lengths = np.bincount(codes[rows], minlength=groups.count)
        return ValueLists(self.values, taken(flat, rows), lengths), None  # type: ignore[return-value]

    def lists(self, column: pa.Array) -> ValueLists:
        """A column of lists as partial results: distinct as they were when stored or sent."""
        return ValueLists(self.values, self.values.packed(column.flatten()), lengths_of(column))

    def merge(self, old: Column, new: Column) -> Column:
        elements = self.values
        pairs = zip(old[0].tolist(), new[0].tolist(), strict=True)
        return objects([joined(elements, kept, given) for kept, given in pairs]), None

    def apart(self, column: Column) -> Column:
        kept: Any = column[0]
        return column if isinstance(kept, np.ndarray) else (objects(kept.tolist()), None)

    def from_arrow(self, column: pa.Array) -> Column:
        return objects(self.lists(column).tolist()), None

    def to_arrow(self, column: Column) -> pa.Array:
        ends = np.zeros(len(column[0]) + 1, np.int64)
        np.cumsum(self.elements(column), out=ends[1:])
        if ends[-1] >= _MOST_ELEMENTS:
            raise TooLargeError
        values = self._values(column[0], int(ends[-1]))
        offsets = pa.array(ends.astype(np.int32))
        return in_one(pa.ListArray.from_arrays(offsets, values, type=self.type))

    def _values(self, kept: Any, total: int) -> pa.Array:
        if isinstance(kept, KeptSets):
            kept = kept.lists()
        if isinstance(kept, ValueLists):
            return kept.column()
        return self.values.column(self._flat(kept.tolist(), total))

    def result(self, column: Column) -> pa.Array:
        return pa.array(self.elements(column))

    def _flat(self, kept: list[Any], total: int) -> npt.NDArray[Any]:
        """The values of all keys, one after the other."""
        if all(type(each) is tuple for each in kept):
            return np.fromiter(chain.from_iterable(kept), self.values.dtype, total)
        return np.concatenate([self.values.flat_of(each) for each in kept])

    def elements(self, column: Column) -> npt.NDArray[np.int64]:
        kept: Any = column[0]
        if isinstance(kept, ValueLists | KeptSets):
            return kept.lengths
        return np.fromiter(map(len, kept.tolist()), np.int64, len(kept))

    # Rows in memory hold sets that grow as they are, or each fold would copy them. A few values are
    # held as they are stored.

    def from_held(self, held: Sequence[Any]) -> Column:
        return objects([() if each is None else self._taken(each) for each in held]), None

    def _taken(self, held: Any) -> Any:
        if isinstance(held, Distinct) or (self.values.are_values and len(held) <= FEW):
            return held
        flat = self.values.flat(self.values.value.to_array(held))
        return tuple(flat.tolist()) if len(flat) <= FEW else Distinct(self.values, flat)

    def to_held(self, column: Column) -> Sequence[Any]:
        kept: list[Any] = column[0].tolist()
        if self.values.are_values:
            return kept
        return [each if isinstance(each, Distinct) else self._held_few(each) for each in kept]

    def _held_few(self, few: Few) -> Sequence[Any]:
        return tuple(Distinct(self.values, self.values.flat_of(few)))
