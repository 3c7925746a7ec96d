"""Accumulating: what sums, counts and choices do to columns, without a loop over rows.

What all kinds have in common is in ``partials``; those with a file of their own are ``distinct``
values, the value of the ``best`` row, and ``user_aggregates``.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import MainstayError
from mainstay.state.aggregates import Accumulator, Output
from mainstay.state.best import BestBy, BestBySeveral
from mainstay.state.distinct import DistinctValues
from mainstay.state.grouping import Groups
from mainstay.state.partials import (
    Accumulating,
    AggregateFailedError,
    Column,
    array_of_numbers,
    dtype_of,
    lists_of_one,
    numbers_of,
    objects,
)
from mainstay.state.user_aggregates import UserDefined
from mainstay.state.values import ValueType

__all__ = [
    "Accumulating",
    "AggregateFailedError",
    "Column",
    "DoesNotFitError",
    "accumulating",
    "dtype_of",
    "result",
]

_LOW_HALF = np.int64(0xFFFFFFFF)
_LONG_LIMIT = 1 << 63


class DoesNotFitError(MainstayError):
    """A sum is beyond its type. ``position`` is the place of its key in ``keys``, or in the batch
    that the caller knows."""

    def __init__(self, accumulator: Accumulator, position: int) -> None:
        super().__init__(accumulator.of, position)
        self.accumulator = accumulator
        self.position = position
        self.keys: pa.Array | None = None

    def among(self, keys: pa.Array) -> DoesNotFitError:
        """The same where the caller cannot know the keys."""
        self.keys = keys
        return self


def accumulating(accumulator: Accumulator) -> Accumulating:
    """What does the work of an accumulator, by its type and function."""
    kind = BestBySeveral if accumulator.order else _KINDS.get(accumulator.how)
    if kind is not None:
        return kind(accumulator)
    if accumulator.how == "rows":
        # It builds on what is here.
        from mainstay.state.row_lists import BestRows, CollectedRows

        return (CollectedRows if accumulator.best is None else BestRows)(accumulator)
    dtype = dtype_of(accumulator.type)
    if dtype is None:
        return Objects(accumulator)
    if accumulator.how in ("first", "last"):
        return Picked(accumulator, dtype)
    return Numbers(accumulator, dtype)


class Numbers(Accumulating):
    """Sums, counts, minima and maxima of what numpy has a type for."""

    def __init__(self, accumulator: Accumulator, dtype: np.dtype[Any]) -> None:
        super().__init__(accumulator)
        self.dtype = dtype
        self.function, self.empty = _function(accumulator.how, dtype)
        self.may_be_null = accumulator.how != "count"
        self._may_overflow = accumulator.how == "sum" and dtype.kind == "i"

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        if self.accumulator.how != "count":
            return super().first_partials(batch)
        if self.accumulator.column is not None:
            return self.given(batch).is_valid().cast(pa.int64())
        rows = self.rows(batch)
        return pa.array(np.ones(batch.num_rows, np.int64)) if rows is None else rows.cast("int64")

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        values, valid = self.from_arrow(partials)
        if groups.codes is None:
            return values, valid
        out = np.full(groups.count, self.empty, self.dtype)
        if self._may_overflow:
            self._add_exactly(out, groups.codes, values)
        else:
            # NaN is a value like others here, and so is what an infinity comes to.
            with np.errstate(invalid="ignore", over="ignore"):
                self.function.at(out, groups.codes, values)
        return out, None if valid is None else _any(valid, groups)

    def _add_exactly(self, out: Any, codes: Any, values: Any) -> None:
        """Add whole numbers by group; where they are large, in two halves that cannot overflow."""
        largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
        if largest * len(values) < _LONG_LIMIT:
            np.add.at(out, codes, values)
            return
        high, low = np.zeros_like(out), np.zeros_like(out)
        np.add.at(high, codes, values >> 32)
        np.add.at(low, codes, values & _LOW_HALF)
        high += low >> 32
        self._refuse((high < -(1 << 31)) | (high >= 1 << 31))
        out[:] = (high << 32) | (low & _LOW_HALF)

    def _refuse(self, beyond: npt.NDArray[np.bool_]) -> None:
        if beyond.any():
            raise DoesNotFitError(self.accumulator, int(beyond.argmax()))

    def merge(self, old: Column, new: Column) -> Column:
        with np.errstate(invalid="ignore", over="ignore"):
            merged = self.function(old[0], new[0])
        if self._may_overflow:
            # Both have another sign than their sum.
            self._refuse(((old[0] ^ merged) & (new[0] ^ merged)) < 0)
        return merged, None if old[1] is None or new[1] is None else old[1] | new[1]

    def from_arrow(self, column: pa.Array) -> Column:
        return numbers_of(column, self.dtype, self.empty)

    def to_arrow(self, column: Column) -> pa.Array:
        return array_of_numbers(column, self.type)


class Picked(Accumulating):
    """The first or the last value that is not null, of what numpy has a type for."""

    def __init__(self, accumulator: Accumulator, dtype: np.dtype[Any]) -> None:
        super().__init__(accumulator)
        self.dtype = dtype
        self.empty = dtype.type(0)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        return self.from_arrow(partials.take(_picked(self.accumulator.how, partials, groups)))

    def merge(self, old: Column, new: Column) -> Column:
        (first, is_first), (second, is_second) = old, new
        if self.accumulator.how == "last":
            (first, is_first), (second, is_second) = new, old
        if is_first is None:
            return first, None
        valid = None if is_second is None else is_first | is_second
        return np.where(is_first, first, second), valid

    def from_arrow(self, column: pa.Array) -> Column:
        return numbers_of(column, self.dtype, self.empty)

    def to_arrow(self, column: Column) -> pa.Array:
        return array_of_numbers(column, self.type)


class Objects(Accumulating):
    """Whatever is kept as Python objects: strings, decimals, and what is nested."""

    dtype = np.dtype(object)
    empty: Any = None

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator)
        self._values = ValueType.of(accumulator.type)
        self._merge = self._merging(accumulator)

    def _merging(self, accumulator: Accumulator) -> Callable[[Any, Any], Any]:
        if accumulator.how == "sum":
            return _exact_sum(accumulator.type)
        if accumulator.how in ("min", "max"):
            return min if accumulator.how == "min" else max
        return (lambda old, new: old) if accumulator.how == "first" else (lambda old, new: new)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        if groups.codes is not None:
            how = self.accumulator.how
            if how == "sum":
                partials = self._sums(partials, groups)
            else:
                partials = partials.take(_picked(how, partials, groups))
        return self.from_arrow(partials)

    def _sums(self, partials: pa.Array, groups: Groups) -> pa.Array:
        """Sums of decimals by group. In 256 bits, which no number of rows can fill."""
        wide = partials.cast(pa.decimal256(2 * 38, self.type.scale))
        table = pa.table({"code": groups.codes, "sum": wide})
        summed = table.group_by("code", use_threads=False).aggregate([("sum", "sum")])
        order = np.empty(groups.count, np.int64)
        order[summed.column("code").to_numpy()] = np.arange(groups.count)
        sums = summed.column("sum_sum").combine_chunks().take(pa.array(order))
        try:
            return sums.cast(self.type)
        except pa.ArrowInvalid:
            limit = pa.scalar(Decimal(10) ** (self.type.precision - self.type.scale))
            beyond = pc.greater_equal(pc.abs(sums), limit.cast(sums.type)).fill_null(False)
            position = int(beyond.to_numpy(zero_copy_only=False).argmax())
            raise DoesNotFitError(self.accumulator, position) from None

    def merge(self, old: Column, new: Column) -> Column:
        merge = self._merge
        pairs = zip(old[0].tolist(), new[0].tolist(), strict=True)
        merged: list[Any] = []
        try:
            for kept, value in pairs:
                merged.append(
                    value if kept is None else kept if value is None else merge(kept, value)
                )
        except InvalidOperation:
            raise DoesNotFitError(self.accumulator, len(merged)) from None
        return objects(merged), None

    def from_arrow(self, column: pa.Array) -> Column:
        return objects(self._values.from_array(column)), None

    def to_arrow(self, column: Column) -> pa.Array:
        return self._values.to_array(column[0].tolist())


class Collected(Objects):
    """The list of all values that are not null, in the order in which they came."""

    empty = ()
    may_be_null = False

    def elements(self, column: Column) -> npt.NDArray[np.int64]:
        return np.fromiter(map(len, column[0].tolist()), np.int64, len(column[0]))

    def _merging(self, accumulator: Accumulator) -> Callable[[Any, Any], Any]:
        return lambda old, new: old + new

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        return lists_of_one(self.given(batch), self.type)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        if groups.codes is None:
            return self.from_arrow(partials)
        order = np.argsort(groups.codes, kind="stable")
        elements = partials.take(pa.array(order)).flatten()
        lengths = np.zeros(groups.count, np.int64)
        np.add.at(lengths, groups.codes, partials.value_lengths().to_numpy())
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
        return self.from_arrow(pa.ListArray.from_arrays(pa.array(ends), elements, type=self.type))


def result(output: Output, columns: list[Column], parts: list[Accumulating]) -> pa.Array:
    """The column that is emitted for an aggregate, from its accumulators."""
    first, *rest = output.accumulators
    if not rest:
        return parts[first].result(columns[first])
    (sums, _), (counts, _) = columns[first], columns[rest[0]]
    if sums.dtype == object:
        return pa.array(_decimal_means(sums, counts, output.type), output.type)
    return array_of_numbers((sums / np.maximum(counts, 1), counts > 0), output.type)


_KINDS: Mapping[str, type[Accumulating]] = {
    "collect": Collected,
    "count_distinct": DistinctValues,
    "max_by": BestBy,
    "min_by": BestBy,
    "user": UserDefined,
}


# ------------------------------------------------------------ functions and their elements


def _function(how: str, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The function of two arrays, and the value that changes nothing.

    As in Spark NaN is above every number, so a minimum passes it over and a maximum keeps it.
    """
    if how in ("sum", "count"):
        return np.add, dtype.type(0)
    if dtype.kind == "f":
        return (np.fmin, dtype.type("nan")) if how == "min" else (np.maximum, dtype.type("-inf"))
    if dtype.kind == "b":
        return (np.minimum, np.True_) if how == "min" else (np.maximum, np.False_)
    limits = np.iinfo(dtype)
    return (
        (np.minimum, dtype.type(limits.max))
        if how == "min"
        else (
            np.maximum,
            dtype.type(limits.min),
        )
    )


def _exact_sum(arrow: pa.DataType) -> Callable[[Any, Any], Any]:
    context = Context(prec=arrow.precision, traps=[InvalidOperation])
    unit = Decimal(1).scaleb(-arrow.scale)
    # Quantizing refuses what has too many digits; a sum of this scale is never rounded by it.
    wide = Context(prec=2 * arrow.precision)
    return lambda old, new: wide.add(old, new).quantize(unit, context=context)


def _decimal_means(sums: Any, counts: Any, arrow: pa.DataType) -> list[Any]:
    context = Context(prec=2 * 38, rounding=ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-arrow.scale)
    return [
        None if total is None else context.divide(total, count).quantize(unit, context=context)
        for total, count in zip(sums.tolist(), counts.tolist(), strict=True)
    ]


# ------------------------------------------------------------ rows and arrays


def _any(valid: npt.NDArray[np.bool_], groups: Groups) -> npt.NDArray[np.bool_]:
    """Which groups have a row that counts."""
    assert groups.codes is not None
    out = np.zeros(groups.count, np.bool_)
    out[groups.codes[valid]] = True
    return out


def _picked(how: str, column: pa.Array, groups: Groups) -> pa.Array:
    """For each group the row whose value is first, last, least or greatest; null where none is."""
    codes = groups.codes
    if codes is None:
        return pa.array(groups.rows)
    rows = np.arange(len(codes))
    if column.null_count:
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if how in ("min", "max"):
        order = "ascending" if how == "max" else "descending"
        ranked = pc.sort_indices(column.take(pa.array(rows)), sort_keys=[("", order)])
        rows = rows[ranked.to_numpy()]
    elif how == "first":
        rows = rows[::-1]
    picked = np.full(groups.count, -1, np.int64)
    # Assigning in order leaves the last one of each group in place.
    picked[codes[rows]] = rows
    return pa.array(picked, mask=picked < 0)
