"""Partial results: what every kind of accumulator does to columns.

There are three steps. ``first_partials`` makes a partial result of each row. ``combine`` turns the
partials of a group's rows into one. ``merge`` adds partials to what is kept, element by element,
and is associative. A partial result may be combined any number of times before it is merged, or
never.

In between, a column is a pair: an array of values and one that says which of them count (None: all
do). Numbers, dates and timestamps are kept as such, with the neutral element of the function where
nothing counts; several columns that belong together are the fields of one array. Everything else
is an array of Python objects in the form that state keeps, with None where there is nothing.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import MainstayError
from mainstay.state.aggregates import Accumulator
from mainstay.state.grouping import Groups
from mainstay.state.values import ValueType

Column = tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]


class AggregateFailedError(MainstayError):
    """What the author of the job wrote for an aggregate raised ``cause``."""

    def __init__(self, accumulator: Accumulator, cause: BaseException, hook: str = "") -> None:
        super().__init__(accumulator.of, cause, hook)
        self.accumulator = accumulator
        self.cause = cause
        self.hook = hook


class Accumulating:
    """The columns of one accumulator."""

    dtype: np.dtype[Any]
    empty: Any
    """What is kept for a key before its first row."""
    may_be_null = True
    is_shared = False
    """Whether what is kept grows in place, so that rows in memory should hold it as it is."""

    def __init__(self, accumulator: Accumulator) -> None:
        self.accumulator = accumulator
        self.type = accumulator.type

    def rows(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Which rows of a batch count for this aggregate; None where all do."""
        where = self.accumulator.where
        if where is None:
            return None
        try:
            return where.rows(batch)
        except pa.ArrowException as error:
            raise AggregateFailedError(self.accumulator, error) from error

    def given(self, batch: pa.RecordBatch) -> pa.Array:
        """The column that is aggregated, null where a row does not count."""
        column = self.accumulator.column
        assert column is not None
        return only(batch.column(column), self.rows(batch))

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        """A partial result of each row of a batch."""
        given = self.given(batch)
        if given.type == self.type:
            return given
        # Only wider types come in question, and double, which rounds as Spark does.
        return given.cast(self.type, safe=False)

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        """One partial result for each group."""
        raise NotImplementedError

    def combine_rows(self, batch: pa.RecordBatch, groups: Groups) -> Column:
        """One partial result for each group of the rows of a batch."""
        return self.combine(self.first_partials(batch), groups)

    def merge(self, old: Column, new: Column) -> Column:
        """Both, element by element: a new column."""
        raise NotImplementedError

    def apart(self, column: Column) -> Column:
        """The same as an array, in which something else can be put in single places."""
        return column

    def from_arrow(self, column: pa.Array) -> Column:
        raise NotImplementedError

    def to_arrow(self, column: Column) -> pa.Array:
        raise NotImplementedError

    def result(self, column: Column) -> pa.Array:
        """What is emitted, where the aggregate has this one accumulator."""
        return self.to_arrow(column)

    def elements(self, column: Column) -> npt.NDArray[np.int64] | None:
        """How many values each key has, where that is not one."""
        return None

    def from_held(self, held: Sequence[Any]) -> Column:
        """A column of what rows in memory hold; None where there is no row."""
        return self.from_arrow(self._held.to_array(held))

    def to_held(self, column: Column) -> Sequence[Any]:
        """What rows in memory hold of a column."""
        return self._held.from_array(self.to_arrow(column))

    @cached_property
    def _held(self) -> ValueType:
        return ValueType.of(self.type)


def dtype_of(arrow: pa.DataType) -> np.dtype[Any] | None:
    """How values of a type are kept in an array; None where they are kept as objects."""
    if pa.types.is_date32(arrow):
        return np.dtype(np.int32)
    if pa.types.is_timestamp(arrow):
        return np.dtype(np.int64)
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_boolean(arrow):
        dtype: np.dtype[Any] = np.dtype(arrow.to_pandas_dtype())
        return dtype
    return None


def only(column: pa.Array, rows: pa.Array | None) -> pa.Array:
    """The column with nulls in place of the rows that do not count."""
    if rows is None:
        return column
    if not pa.types.is_nested(column.type):
        return pc.if_else(rows, column, pa.scalar(None, column.type))
    counts = rows.to_numpy(zero_copy_only=False)
    return column.take(pa.array(np.arange(len(column)), mask=~counts))


def lists_of_one(column: pa.Array, arrow: pa.DataType) -> pa.Array:
    """A list of each value; an empty one where it is null."""
    ends = np.arange(len(column) + 1, dtype=np.int32)
    if column.null_count:
        np.cumsum(column.is_valid().to_numpy(zero_copy_only=False), out=ends[1:])
        column = column.drop_null()
    return pa.ListArray.from_arrays(pa.array(ends), column, type=arrow)


def numbers_of(column: pa.Array, dtype: np.dtype[Any], empty: Any) -> Column:
    """Values and which of them count, without a copy where all do."""
    if not len(column):
        return np.empty(0, dtype), None
    if dtype.kind == "b":
        values = column.fill_null(bool(empty)).to_numpy(zero_copy_only=False)
    else:
        size = dtype.itemsize
        values = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * size)
    if not column.null_count:
        return values, None
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, values, empty), valid


def array_of_numbers(column: Column, arrow: pa.DataType) -> pa.Array:
    """An Arrow column over the values as they are: nobody may change them afterwards."""
    values, valid = column
    if valid is not None and valid.all():
        valid = None
    if pa.types.is_boolean(arrow):
        return pa.array(values, mask=None if valid is None else ~valid)
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow, len(values), [bits, pa.py_buffer(values)])


def objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    """An array of objects, also where they are sequences."""
    return np.fromiter(values, np.dtype(object), len(values))
