"""Lanes: the values of one accumulator by slot, as the columnar tables of the heap keep them.

A lane gives *taken* columns to frozen segments: what they need of some slots, which stays as it is
whatever is folded in later. Those of distinct values are no copies. A set only grows, so it is
enough to know how many values it had, and how many of them files have already: a segment holds the
others, and says that they are appended.

This is a hot file (benchmarks/aggregate_path.py, benchmarks/distinct_path.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.distinct import DistinctValues
from mainstay.state.info import StateInfo
from mainstay.state.key_sets import KeptSets, KeySets
from mainstay.state.operations import APPEND, PUT, may_append
from mainstay.state.slots import Slots

SETS = np.dtype([("set", np.int64), ("stored", np.int64), ("count", np.int64)])
"""Of a slot: one more than the number of its set, how many values files have of it, and how many it
has."""


class Lane:
    """The values of one accumulator by slot, and which of them count."""

    __slots__ = ("_empty", "_valid", "_values", "part")

    def __init__(self, part: Accumulating) -> None:
        self.part = part
        self._empty = part.empty
        self._values = np.empty(0, part.dtype)
        self._valid = np.zeros(0, np.bool_) if part.may_be_null and part.dtype != object else None

    def grow(self, capacity: int) -> None:
        """In place: nothing else refers to them, and large memory is moved without a copy."""
        before = len(self._values)
        self._values.resize(capacity, refcheck=False)
        # Several fields are zeros before their first row, as fresh memory is.
        if self._values.dtype.names is None and (self._empty is None or self._empty != 0):
            self._values[before:].fill(self._empty)
        if self._valid is not None:
            self._valid.resize(capacity, refcheck=False)

    def get(self, slots: Slots) -> Column:
        """What is kept: copies."""
        return self._values[slots], None if self._valid is None else self._valid[slots]

    def merged(self, slots: Slots, partial: Column) -> Column:
        """What is kept together with a partial result of each."""
        return self.part.merge(self.get(slots), partial)

    def put_merged(self, slots: Slots, column: Column) -> Column:
        """Keep what was merged; gives what is kept then."""
        self.put(slots, column)
        return column

    def put(self, slots: Slots, column: Column) -> None:
        values, valid = column
        self._values[slots] = values
        if self._valid is not None:
            self._valid[slots] = True if valid is None else valid

    def clear(self, slots: Slots) -> None:
        """As before their first row."""
        empty = np.empty(len(slots), self._values.dtype)
        empty.fill(self._empty)
        self._values[slots] = empty
        if self._valid is not None:
            self._valid[slots] = False

    # ------------------------------------------------------------ snapshots

    def take(self, slots: Slots) -> Column:
        """What a frozen segment needs of slots: files are to have all of it."""
        return self.get(slots)

    def whole(self, slots: Slots) -> Column:
        """The same for who reads, and stores nothing."""
        return self.get(slots)

    def elements(self, column: Column) -> npt.NDArray[np.int64] | None:
        """How many values each slot has in what was taken, where that is not one."""
        return self.part.elements(column)

    def to_arrow(self, column: Column) -> pa.Array:
        """What was taken as it is stored."""
        return self.part.to_arrow(column)

    def apply(self, slots: Slots, field: pa.Array, is_put: npt.NDArray[np.bool_]) -> None:
        """What files have of distinct slots: put, or appended to what is there."""
        self.put(slots, self.part.from_arrow(field))

    def store_again(self, slots: Slots) -> None:
        """Files have nothing of slots any more."""


class SetLane(Lane):
    """Sets of distinct values by slot."""

    __slots__ = ("_appends", "_sets")
    part: DistinctValues

    def __init__(self, part: DistinctValues, sets: KeySets, *, appends: bool) -> None:
        self.part = part
        self._sets = sets
        self._appends = appends
        self._values = np.zeros(0, SETS)
        self._valid = None

    def grow(self, capacity: int) -> None:
        self._values.resize(capacity, refcheck=False)

    def get(self, slots: Slots) -> Column:
        some = self._values[slots]
        # A slot without a set has no values of any.
        sets = np.maximum(some["set"] - 1, 0)
        return KeptSets(self._sets, sets, some["count"].copy()), None  # type: ignore[return-value]

    def merged(self, slots: Slots, partial: Column) -> Column:
        # A set cannot be taken back: nothing is added before all has been merged.
        return partial

    def put_merged(self, slots: Slots, column: Column) -> Column:
        self._add(slots, column[0], are_distinct=True)
        return self.get(slots)

    def _add(self, slots: Slots, given: Any, *, are_distinct: bool) -> None:
        lists = (
            given
            if not isinstance(given, np.ndarray)
            else self.part.lists(self.part.to_arrow((given, None)))
        )
        sets = self._values["set"][slots]
        is_new = sets == 0
        if is_new.any():
            sets[is_new] = self._sets.new(int(np.count_nonzero(is_new))) + 1
            self._values["set"][slots] = sets
        self._sets.add(sets - 1, lists, are_distinct=are_distinct)
        self._values["count"][slots] = self._sets.counts(sets - 1)

    def clear(self, slots: Slots) -> None:
        # What a frozen segment has taken knows the set by its own number.
        self._values[slots] = np.zeros(len(slots), SETS)

    def live(self) -> int:
        """How many values there are in all slots."""
        return int(self._values["count"].sum())

    # ------------------------------------------------------------ snapshots

    def take(self, slots: Slots) -> Column:
        some = self._values[slots]
        if self._appends:
            self._values["stored"][slots] = some["count"]
        return some, None

    def whole(self, slots: Slots) -> Column:
        some = self._values[slots]
        some["stored"] = 0
        return some, None

    def elements(self, column: Column) -> npt.NDArray[np.int64]:
        some = column[0]
        lengths: npt.NDArray[np.int64] = some["count"] - some["stored"]
        return lengths

    def to_arrow(self, column: Column) -> pa.Array:
        some = column[0]
        sets = np.maximum(some["set"] - 1, 0)
        lists: Any = self._sets.lists(sets, some["stored"], some["count"])
        return self.part.to_arrow((lists, None))

    def apply(self, slots: Slots, field: pa.Array, is_put: npt.NDArray[np.bool_]) -> None:
        self.clear(slots[is_put])
        self._add(slots, self.part.lists(field), are_distinct=False)
        if self._appends:
            self._values["stored"][slots] = self._values["count"][slots]

    def store_again(self, slots: Slots) -> None:
        self._values["stored"][slots] = 0


def sets_of(parts: Sequence[Accumulating]) -> list[KeySets | None]:
    """Sets of distinct values for each accumulator that keeps some."""
    return [part.sets() if isinstance(part, DistinctValues) else None for part in parts]


def lanes_of(
    parts: Sequence[Accumulating], info: StateInfo, sets: Sequence[KeySets | None]
) -> list[Lane]:
    """A lane for each accumulator."""
    appends = may_append(info.value.arrow, [isinstance(part, DistinctValues) for part in parts])
    lanes = []
    for part, own in zip(parts, sets, strict=True):
        if own is None:
            lanes.append(Lane(part))
        else:
            assert isinstance(part, DistinctValues)
            lanes.append(SetLane(part, own, appends=appends))
    return lanes


def ops_of(columns: Sequence[Column]) -> pa.Array:
    """What is done with taken rows: they are put, or where files have a part of them appended."""
    ops = np.full(len(columns[0][0]), PUT, np.int8)
    for values, _ in columns:
        if values.dtype == SETS:
            ops[values["stored"] > 0] = APPEND
    return pa.array(ops)


def rows_of(lanes: Sequence[Lane], columns: Sequence[Column], info: StateInfo) -> pa.Array:
    """Taken rows as they are stored."""
    arrays = [lane.to_arrow(column) for lane, column in zip(lanes, columns, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=list(info.value.arrow))
