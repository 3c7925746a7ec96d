"""Aggregates whose author is that of the job: a function object with an accumulator.

The contract is that of ``AggregatingState`` (``AggregateFunction``). A function that has ``merge``
gives partial results, each an accumulator, so that rows are combined before they are sent. One that
has none is given the values themselves, at the owner of the key: its partial results are lists of
them, and two of what is kept cannot be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.state.aggregates import Accumulator
from mainstay.state.grouping import Groups
from mainstay.state.packing import side_by_side
from mainstay.state.partials import Accumulating, AggregateFailedError, Column, objects, only
from mainstay.state.values import ValueType


@dataclass(frozen=True, slots=True)
class Added:
    """Values that are still to be added to what is kept."""

    values: list[Any]


class UserDefined(Accumulating):
    """Accumulators in the form that state keeps; None before the first value."""

    dtype = np.dtype(object)
    empty: Any = None

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator)
        assert accumulator.user is not None
        user = accumulator.user
        self._function, self._kept, self._returned = user.function, user.accumulator, user.returns
        self._given = ValueType.of(user.takes)
        self._thaw = self._kept.thaw or (lambda kept: kept)

    # ------------------------------------------------------------ rows

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        given = self._values(batch)
        if not self.accumulator.can_merge:
            return pa.array([None if value is None else [value] for value in given], self._lists)
        return self._kept.to_array([None if v is None else self._with(None, [v]) for v in given])

    @property
    def _lists(self) -> pa.DataType:
        return pa.list_(self._given.arrow)

    def _values(self, batch: pa.RecordBatch) -> list[Any]:
        """What is added for each row; None where nothing is."""
        given = side_by_side(batch, self.accumulator.columns, self._given.arrow)
        return self._given.from_array(only(given, self.rows(batch)))

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        codes = range(len(partials)) if groups.codes is None else groups.codes.tolist()
        found: list[Any] = [None] * groups.count
        if not self.accumulator.can_merge:
            lists = ValueType.of(self._lists).from_array(partials)
            return self._added(zip(codes, lists, strict=True), groups.count)
        for code, partial in zip(codes, self._kept.from_array(partials), strict=True):
            found[code] = self._merged(found[code], partial)
        return objects(found), None

    def combine_rows(self, batch: pa.RecordBatch, groups: Groups) -> Column:
        codes = range(batch.num_rows) if groups.codes is None else groups.codes.tolist()
        lists = (None if value is None else (value,) for value in self._values(batch))
        return self._added(zip(codes, lists, strict=True), groups.count)

    def _added(self, given: Any, count: int) -> Column:
        found: list[Any] = [None] * count
        for code, values in given:
            if values is None:
                continue
            if found[code] is None:
                found[code] = Added([])
            found[code].values.extend(values)
        return objects(found), None

    # ------------------------------------------------------------ what is kept

    def merge(self, old: Column, new: Column) -> Column:
        pairs = zip(old[0].tolist(), new[0].tolist(), strict=True)
        return objects([self._merged(kept, given) for kept, given in pairs]), None

    def _merged(self, kept: Any, given: Any) -> Any:
        if given is None:
            return kept
        if type(given) is Added:
            if type(kept) is Added:
                return Added([*kept.values, *given.values])
            return self._with(kept, given.values)
        if kept is None:
            return given
        if type(kept) is Added:
            kept = self._with(None, kept.values)
        return self._called("merge", self._thaw(kept), self._thaw(given))

    def _with(self, kept: Any, values: Sequence[Any]) -> Any:
        """What is kept after some values, whose own form they are given in."""
        thaw = self._given.thaw
        function, accumulator = self._function, None
        try:
            start = self._created() if kept is None else kept
            accumulator = None if start is None else self._thaw(start)
            for value in values:
                changed = function.add(accumulator, value if thaw is None else thaw(value))
                # An accumulator changed in place may come back as None.
                accumulator = accumulator if changed is None else changed
        except AggregateFailedError:
            raise
        except BaseException as error:
            raise AggregateFailedError(self.accumulator, error, "add") from error
        return self._frozen(accumulator, self._kept, "add")

    def _created(self) -> Any:
        try:
            created = self._function.create()
        except BaseException as error:
            raise AggregateFailedError(self.accumulator, error, "create") from error
        return self._frozen(created, self._kept, "create")

    def _called(self, hook: str, *given: Any) -> Any:
        """What a method makes of accumulators, frozen; the first may have been changed in place."""
        try:
            made = getattr(self._function, hook)(*given)
        except BaseException as error:
            raise AggregateFailedError(self.accumulator, error, hook) from error
        if hook == "merge" and made is None:
            made = given[0]
        return self._frozen(made, self._returned if hook == "result" else self._kept, hook)

    def _frozen(self, value: Any, into: ValueType, hook: str) -> Any:
        if value is None:
            return None
        try:
            return into.freeze(value)
        except StateTypeError as error:
            name = type(self._function).__name__
            given = f"the aggregate {self.accumulator.of!r}: what {name}.{hook}() gave"
            refused = StateTypeError(f"{given}: {error}")
            raise AggregateFailedError(self.accumulator, refused, hook) from error

    # ------------------------------------------------------------ Arrow

    def from_arrow(self, column: pa.Array) -> Column:
        return objects(self._kept.from_array(column)), None

    def to_arrow(self, column: Column) -> pa.Array:
        return self._kept.to_array([self._accumulator(each) for each in column[0].tolist()])

    def _accumulator(self, kept: Any) -> Any:
        return self._with(None, kept.values) if type(kept) is Added else kept

    def result(self, column: Column) -> pa.Array:
        kept = map(self._accumulator, column[0].tolist())
        thaw = self._thaw
        found = [None if each is None else self._called("result", thaw(each)) for each in kept]
        return self._returned.to_array(found)
