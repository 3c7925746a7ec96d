"""What the operators of windows share: rows gathered, and grouped by key and slice.

``SliceCombine`` stands before the shuffle, in the chain of the sender, as ``Combine`` does before
other aggregations: it emits one partial result for each key and slice, with the number of rows that
it stands for. Whether it is late the receiver decides, as it would of each of the rows: all of them
are in one slice, and that alone matters.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.runtime.operators.aggregate import PASSED_ON, WORTHWHILE, Gathering
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import END_US, START_US
from mainstay.runtime.windows import FixedWindows, Times
from mainstay.state.accumulating import AggregateFailedError, DoesNotFitError
from mainstay.state.aggregates import Aggregation
from mainstay.state.columns import words_as
from mainstay.state.grouping import Groups, words_of
from mainstay.state.values import ValueType

TIMESTAMP = ValueType.of("timestamp")
MOST_SLICES = 1 << 20
"""Slices that rows of a batch may be apart for them to be numbered by their distance."""


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Where the time of a row is: in a column, to which ``shift_us`` is added; or the wall clock,
    where ``column`` is None."""

    column: int | None
    shift_us: int = 0

    def of(self, batch: pa.RecordBatch) -> tuple[Times, npt.NDArray[np.bool_] | None]:
        """The times of the rows, and which of them have one (None: all do)."""
        assert self.column is not None
        given = batch.column(self.column)
        times = words_of(given)
        if self.shift_us:
            times = times + self.shift_us
        known = None
        if given.null_count:
            known = given.is_valid().to_numpy(zero_copy_only=False)
            times = np.where(known, times, 0)
        return times, known


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows grouped by key and slice: distinct keys, and of each group the key's number among them,
    the slice, and a row."""

    keys: pa.Array
    codes: npt.NDArray[np.int64]
    slices: Times
    groups: Groups


class Slicing(Gathering):
    """Gathers rows and groups them by key and slice."""

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        windows: FixedWindows,
        times: RowTimes,
    ) -> None:
        super().__init__(key, aggregation, schema)
        self._windows = windows
        self._times = times

    def entries(self, keys: pa.Array, slices: Times) -> Entries:
        """The groups of rows with these keys and slices."""
        by_key = self._grouper.group(keys)
        codes = np.arange(len(keys)) if by_key.codes is None else by_key.codes
        distinct = keys if by_key.codes is None else keys.take(pa.array(by_key.rows))
        numbers, count = self._numbered(slices)
        if count == 1:
            return Entries(distinct, codes[by_key.rows], slices[by_key.rows], by_key)
        groups = self._grouper.group(pa.array(codes * count + numbers))
        return Entries(distinct, codes[groups.rows], slices[groups.rows], groups)

    def _numbered(self, slices: Times) -> tuple[Times, int]:
        """Small numbers for slices, and how many there are at most."""
        first = int(slices.min(initial=1 << 62))
        count = (int(slices.max(initial=first)) - first) // self._windows.slice_us + 1
        if count <= MOST_SLICES:
            return (slices - first) // self._windows.slice_us, count
        distinct, numbers = np.unique(slices, return_inverse=True)
        return numbers, len(distinct)


class SliceCombine(Slicing):
    """One row of partial results for each key and slice of what it has gathered, or for each row.

    In processing time slices are the receiver's affair, and it goes by the key alone. Rows without
    a time have a slice without one.
    """

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        windows: FixedWindows,
        times: RowTimes,
        of: str,
    ) -> None:
        super().__init__(key, aggregation, schema, windows, times)
        self._of = of
        self._to_pass = 0

    @property
    def known_as(self) -> str:
        return self._of

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        slices, known = self._slices(batch)
        groups = self._groups(batch, slices, known)
        try:
            columns = self._columns(batch, slices, known, groups)
        except AggregateFailedError as error:
            raise self.failed(error) from error.cause
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _columns(
        self,
        batch: pa.RecordBatch,
        slices: Times,
        known: npt.NDArray[np.bool_] | None,
        groups: Groups | None,
    ) -> list[pa.Array]:
        if groups is None:
            rows = pa.array(np.ones(batch.num_rows, np.int64))
            partials = [part.first_partials(batch) for part in self._parts]
            return [*self.key_columns(batch), _as_slices(slices, known), rows, *partials]
        counts = np.bincount(groups.codes, minlength=groups.count)  # type: ignore[arg-type]
        known = None if known is None else known[groups.rows]
        keys = [*self.key_columns(batch, groups), _as_slices(slices[groups.rows], known)]
        return [*keys, pa.array(counts), *self._arrays(batch, groups)]

    def _slices(self, batch: pa.RecordBatch) -> tuple[Times, npt.NDArray[np.bool_] | None]:
        if self._times.column is None:
            none = np.zeros(batch.num_rows, np.bool_)
            return np.zeros(batch.num_rows, np.int64), none
        times, known = self._times.of(batch)
        return self._windows.slice_end(times), known

    def _groups(
        self, batch: pa.RecordBatch, slices: Times, known: npt.NDArray[np.bool_] | None
    ) -> Groups | None:
        """The groups of the rows; None where, or while, there are too many."""
        if self._to_pass:
            self._to_pass -= 1
            return None
        keys = self.key_column(batch)
        if known is None:
            groups = self.entries(keys, slices).groups
        else:
            # Those without a time are a slice by themselves, whose number no other has.
            groups = self._apart(keys, np.where(known, 2 * slices, 1))
        if groups.count > WORTHWHILE * batch.num_rows:
            self._to_pass = PASSED_ON
        return None if groups.codes is None else groups

    def _apart(self, keys: pa.Array, slices: Times) -> Groups:
        """Groups by slices that need not be ends of slices."""
        by_key = self._grouper.group(keys)
        distinct, numbers = np.unique(slices, return_inverse=True)
        if len(distinct) <= 1:
            return by_key
        codes = np.arange(len(keys)) if by_key.codes is None else by_key.codes
        return self._grouper.group(pa.array(codes * len(distinct) + numbers))

    def _arrays(self, batch: pa.RecordBatch, groups: Groups) -> list[pa.Array]:
        try:
            columns = self.combined(batch, groups)
        except DoesNotFitError as error:
            keys = self.key_column(batch).take(pa.array(groups.rows))
            raise self.refused(error, keys) from None
        return [part.to_arrow(c) for part, c in zip(self._parts, columns, strict=True)]


def held(ends: Times, known: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    """Which of some times of rows are known, without those whose end no timestamp can hold: state
    could not name it."""
    if int(ends.max(initial=0)) <= END_US:
        return known
    fits: npt.NDArray[np.bool_] = ends <= END_US
    return fits if known is None else known & fits


def as_bounds(words: Times) -> pa.Array:
    """Bounds of windows as timestamps. One that no timestamp can hold is the first or last that
    there is."""
    return as_times(np.clip(words, START_US, END_US))


def as_times(words: Times) -> pa.Array:
    """A column of timestamps, from microseconds."""
    return words_as(TIMESTAMP, words)


def _as_slices(slices: Times, known: npt.NDArray[np.bool_] | None) -> pa.Array:
    column = as_times(np.ascontiguousarray(slices))
    return column if known is None else pc.if_else(pa.array(known), column, None)
