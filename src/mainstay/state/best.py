"""The value in the row in which another column is greatest or least: ``max_by`` and ``min_by``.

What is kept is a struct of the two, ``by`` and ``value``. Of rows that are equal in ``by`` the
earliest stays. As everywhere NaN is above every number, and a row whose ``by`` is null is passed
over; the value may be null.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.state.aggregates import Accumulator
from mainstay.state.grouping import Groups
from mainstay.state.ordering import are_before, in_order
from mainstay.state.packing import Packing, side_by_side, struct_of
from mainstay.state.partials import Accumulating, Column, numbers_of

Rows = npt.NDArray[np.int64]


class BestBy(Accumulating):
    """Pairs of an order and a value, as the fields of one array."""

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator)
        self._by, self._value = (Packing(f.type, f.name) for f in accumulator.type)
        self._is_max = accumulator.how == "max_by"
        self.dtype = np.dtype([*self._by.fields(), *self._value.fields()])
        self.empty = np.zeros(1, self.dtype)[0]

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        by = self.given(batch)
        value = side_by_side(batch, self.accumulator.columns, self._value.arrow)
        return struct_of([by, value], self.type, by.is_valid().to_numpy(zero_copy_only=False))

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        if groups.codes is not None:
            partials = partials.take(self._picked(partials.flatten()[0], groups.codes, groups))
        return self.from_arrow(partials)

    def _picked(self, by: pa.Array, codes: Rows, groups: Groups) -> pa.Array:
        """For each group its best row; null where it has none."""
        rows = np.arange(len(by))
        if by.null_count:
            rows = np.flatnonzero(by.is_valid().to_numpy(zero_copy_only=False))
            by = by.drop_null()
        if self._by.dtype is None:
            order = "ascending" if self._is_max else "descending"
            # Backwards, because of equal ones the last is to be the earliest row.
            rows = rows[::-1]
            ranked = pc.sort_indices(by[::-1], sort_keys=[("", order)])
            rows = rows[ranked.to_numpy()]
        else:
            values, _ = numbers_of(by, self._by.dtype, None)
            rows = rows[_are_best(values, codes[rows], groups.count, self._is_max)][::-1]
        picked = np.full(groups.count, -1, np.int64)
        # Assigning in order leaves the last one of each group in place.
        picked[codes[rows]] = rows
        return pa.array(picked, mask=picked < 0)

    def merge(self, old: Column, new: Column) -> Column:
        (kept, were), (given, are) = old, new
        taken = np.zeros(len(kept), np.bool_) if were is None else ~were
        both = np.flatnonzero(~taken if are is None else ~taken & are)
        taken[both] = self._is_better(given[both], kept[both])
        if are is not None:
            taken &= are
        merged = kept.copy()
        merged[taken] = given[taken]
        return merged, None if were is None or are is None else were | are

    def _is_better(self, given: Any, kept: Any) -> npt.NDArray[np.bool_]:
        new, old = given["by"], kept["by"]
        lower, higher = (old, new) if self._is_max else (new, old)
        if self._by.dtype is None:
            pairs = zip(lower.tolist(), higher.tolist(), strict=True)
            return np.fromiter((low < high for low, high in pairs), np.bool_, len(new))
        better: npt.NDArray[np.bool_] = lower < higher
        if self._by.dtype.kind == "f":
            better |= np.isnan(higher) & ~np.isnan(lower)
        return better

    def from_arrow(self, column: pa.Array) -> Column:
        packed = np.zeros(len(column), self.dtype)
        by, value = column.flatten()
        self._by.put(packed, by)
        self._value.put(packed, value)
        valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        return packed, valid

    def to_arrow(self, column: Column) -> pa.Array:
        packed, valid = column
        return struct_of([self._by.get(packed), self._value.get(packed)], self.type, valid)

    def result(self, column: Column) -> pa.Array:
        # Where nothing counts the flags of the fields are false as well, so the value is null.
        return self._value.get(column[0])


class BestBySeveral(BestBy):
    """The order is that of several columns, which are a struct. Rows in which the first of them is
    null are passed over; in the others null is behind everything."""

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        numbers = tuple(by.column for by in self.accumulator.order)
        by = side_by_side(batch, numbers, self._by.arrow)
        value = side_by_side(batch, self.accumulator.columns, self._value.arrow)
        counts = self.given(batch).is_valid().to_numpy(zero_copy_only=False)
        return struct_of([by, value], self.type, counts)

    def _picked(self, by: pa.Array, codes: Rows, groups: Groups) -> pa.Array:
        rows = np.flatnonzero(by.is_valid().to_numpy(zero_copy_only=False))
        columns = by.take(pa.array(rows)).flatten()
        order = in_order(columns, self.accumulator.order)
        # Backwards: the last one that is assigned is the best, and of equal ones the earliest.
        rows = rows[order[::-1]]
        picked = np.full(groups.count, -1, np.int64)
        picked[codes[rows]] = rows
        return pa.array(picked, mask=picked < 0)

    def _is_better(self, given: Any, kept: Any) -> npt.NDArray[np.bool_]:
        given_by, kept_by = (self._by.get(each).flatten() for each in (given, kept))
        return are_before(given_by, kept_by, self.accumulator.order)


def _are_best(values: Any, codes: Rows, count: int, is_max: bool) -> npt.NDArray[np.bool_]:
    """Which numbers are the greatest or least ones of their group."""
    if values.dtype.kind != "f":
        return _equal_best(values, codes, count, np.maximum if is_max else np.minimum)
    is_nan = np.isnan(values)
    if not is_nan.any():
        return _equal_best(values, codes, count, np.maximum if is_max else np.minimum)
    # By two columns: NaN is above every number.
    of_class = _equal_best(is_nan, codes, count, np.maximum if is_max else np.minimum)
    rows = np.flatnonzero(of_class)
    plain = np.where(is_nan[rows], values.dtype.type(0), values[rows])
    best = np.zeros(len(values), np.bool_)
    best[rows] = _equal_best(plain, codes[rows], count, np.maximum if is_max else np.minimum)
    return best


def _equal_best(values: Any, codes: Rows, count: int, function: Any) -> npt.NDArray[np.bool_]:
    best = np.zeros(count, values.dtype)
    best[codes] = values
    function.at(best, codes, values)
    return values == best[codes]  # type: ignore[no-any-return]
