"""Values of a fixed width in the heap backend: arrays by slot, read and written by the column.

Numbers, booleans, dates, times and flat structs of them are kept here for operators that work on
columns, which may also ask for the arrays themselves (``taken`` and ``put_arrays``).

This is a hot file (benchmarks/compiled.py, benchmarks/nexmark: q18).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.backends.heap.slotted import SLICE_ROWS, SlotTable
from mainstay.state.fixed_width import (
    CODED,
    Array,
    column_of,
    dtype_of,
    fields_of,
    numbers,
    struct_of,
    validity,
)
from mainstay.state.grouping import Grouper
from mainstay.state.info import StateInfo
from mainstay.state.merge import last_values
from mainstay.state.operations import DELETE, PUT
from mainstay.state.partials import Column
from mainstay.state.slots import Slots
from mainstay.state.stored_key import StoredKey


class ArrayLane:
    """One array by slot, zero where nothing was put."""

    __slots__ = ("values",)

    def __init__(self, dtype: Any) -> None:
        self.values: Array = np.zeros(0, dtype)

    def grow(self, capacity: int) -> None:
        self.values.resize(capacity, refcheck=False)

    def take(self, slots: Slots) -> Column:
        return self.values[slots], None

    def elements(self, column: Column) -> None:
        return None

    def store_again(self, slots: Slots) -> None:
        """All of it is stored each time."""


def is_fixed(arrow: pa.DataType) -> bool:
    """Whether values of a type are kept in arrays here."""
    fields = fields_of(arrow)
    return fields is not None and not any(field.form in CODED for field in fields)


class HeapValueArrays(SlotTable):
    """One value of a fixed width per key.

    The lanes are those of the fields, each with one that says where it is there if it may be
    missing; the last one says where there is a value at all.
    """

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        fields = fields_of(info.value.arrow)
        assert fields is not None
        self._fields = fields
        self._is_struct = pa.types.is_struct(info.value.arrow)
        lanes = []
        for field in fields:
            lanes.append(ArrayLane(dtype_of(field.form)))
            if field.optional:
                lanes.append(ArrayLane(np.bool_))
        super().__init__(info, stored, [*lanes, ArrayLane(np.bool_)])
        self._grouper = Grouper()

    # ------------------------------------------------------------ arrays

    def taken(self, keys: pa.Array) -> tuple[Slots, list[Array]]:
        """The slots of some distinct keys, and copies of what the lanes have there."""
        slots = self._slots_of(keys)
        return slots, [lane.values[slots] for lane in self._lanes]

    def put_arrays(self, slots: Slots, arrays: Sequence[Array]) -> None:
        """Keep something else in some distinct slots."""
        self._touch(slots)
        for lane, values in zip(self._lanes, arrays, strict=True):
            lane.values[slots] = values

    # ------------------------------------------------------------ columns

    def column(self, keys: pa.Array) -> pa.Array:
        """What is kept for each of some keys; null where nothing is."""
        _, arrays = self.taken(keys)
        return self._column(arrays)

    def put_column(self, keys: pa.Array, values: pa.Array) -> None:
        """Keep a value for each of some distinct keys; null deletes what is kept."""
        self.put_arrays(self._slots_of(keys), self._arrays(values))

    def _arrays(self, values: pa.Array) -> list[Array]:
        """A column as the lanes have it."""
        if values.type != self.info.value.arrow:
            values = values.cast(self.info.value.arrow)
        columns = values.flatten() if self._is_struct else [values]
        arrays = []
        for field, column in zip(self._fields, columns, strict=True):
            arrays.append(numbers(column, field.form))
            if field.optional:
                arrays.append(validity(column))
        return [*arrays, validity(values)]

    def _column(self, arrays: Sequence[Array]) -> pa.Array:
        """What the lanes have as a column; null where nothing is kept."""
        arrow = self.info.value.arrow
        *left, present = arrays
        if not self._is_struct:
            return column_of(left[0], present, self._fields[0].form, arrow)
        parts, columns = iter(left), []
        for field, own in zip(self._fields, arrow, strict=True):
            values = next(parts)
            ok = next(parts) if field.optional else None
            columns.append(column_of(values, ok, field.form, own.type))
        return struct_of(columns, present, arrow)

    # ------------------------------------------------------------ reading

    def read(self, key: Any) -> Any:
        """What is kept for a key; None where nothing is."""
        slot = self._slots.find(key)
        if slot is None:
            return None
        place = np.array([slot])
        found = self._column([lane.values[place] for lane in self._lanes])
        return self.info.value.from_array(found)[0]

    peek = read

    def bring(self, keys: Sequence[Any]) -> None:
        """Many keys are about to be read: all are here."""

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and its value."""
        for start in range(0, len(self._slots), SLICE_ROWS):
            slots = np.arange(start, min(start + SLICE_ROWS, len(self._slots)))
            slots = slots[self._lanes[-1].values[slots]]
            values = self._column([lane.values[slots] for lane in self._lanes])
            keys = self.key.from_array(self._slots.keys(slots))
            yield from zip(keys, self.info.value.from_array(values), strict=True)

    survey = entries

    # ------------------------------------------------------------ snapshots

    def rows_of(self, columns: Sequence[Column]) -> pa.Array:
        return self._column([values for values, _ in columns])

    def ops_of(self, columns: Sequence[Column]) -> pa.Array:
        return pa.array(np.where(columns[-1][0], PUT, DELETE).astype(np.int8))

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything: for all that is there."""
        self._changed[:] = self._lanes[-1].values
        self._any_changed = bool(self._changed.any())

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        if not rows.num_rows:
            return
        keys, values = last_values(rows, self.stored, self._grouper)
        slots = self._slots_of(keys)
        for lane, own in zip(self._lanes, self._arrays(values), strict=True):
            lane.values[slots] = own
