"""Elements: the values in the rows of a segment, one by one, whatever the kind of the state.

A value has one for each put, a list one for each element, a map one for each entry. A
conversion or deletion sees one flat column, and the rows are put together again around it: a row
whose element is gone becomes a deletion, because an older file may still hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.ttl import STAMP

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a table of one state; ``flat`` has a null where a row has none."""

    rows: StateTable
    flat: pa.Array
    lengths: npt.NDArray[Any] | None
    """How many elements each row has, where it may be any number."""

    @staticmethod
    def of(rows: StateTable, stored_as: str) -> Elements:
        """The elements of rows of a state that is stored as a value, a list or a map."""
        column = rows.table.column("value").combine_chunks()
        if stored_as != "list":
            return Elements(rows, column, None)
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return Elements(rows, column.flatten(), lengths)

    def everything(self) -> Mask:
        return np.ones(len(self.flat), np.bool_)

    def with_values(self, flat: pa.Array, keep: Mask) -> StateTable:
        """The rows with other elements in the places of these, of which only some are kept."""
        if self.lengths is None:
            return self._with_singles(flat, keep)
        return self._with_lists(flat, keep, self.lengths)

    def _with_singles(self, flat: pa.Array, keep: Mask) -> StateTable:
        ops = self._ops()
        gone = ~keep & ((ops == PUT) | (ops == ENTRY_PUT))
        ops[gone] = np.where(ops[gone] == PUT, DELETE, ENTRY_REMOVE)
        if gone.any():
            flat = flat.take(pa.array(np.arange(len(flat)), mask=gone))
        return self._rows(ops, flat, np.ones(len(ops), np.bool_))

    def _with_lists(self, flat: pa.Array, keep: Mask, lengths: npt.NDArray[Any]) -> StateTable:
        row_of = np.repeat(np.arange(len(lengths)), lengths)
        kept = np.bincount(row_of[keep], minlength=len(lengths))
        ops = self._ops()
        is_empty = (kept == 0) & (lengths > 0)
        ops[is_empty & (ops == PUT)] = DELETE
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(kept, out=offsets[1:])
        lists = pa.ListArray.from_arrays(pa.array(offsets), flat.filter(pa.array(keep)))
        # To append nothing would make an empty list where there is none.
        return self._rows(ops, lists, ~(is_empty & (ops == APPEND)))

    def _ops(self) -> npt.NDArray[np.int8]:
        return np.array(self.rows.table.column("op").to_numpy(), np.int8)

    def _rows(self, ops: npt.NDArray[np.int8], values: pa.Array, keep: Mask) -> StateTable:
        columns = {
            name: self.rows.table.column(name).combine_chunks()
            for name in self.rows.table.column_names
        }
        table = pa.table({**columns, "op": pa.array(ops), "value": values})
        if keep.all():
            return replace(self.rows, table=table)
        groups = self.rows.groups[keep]
        return replace(self.rows, table=table.filter(pa.array(keep)), groups=groups, hashes=None)


def not_expired(flat: pa.Array, horizon_us: int) -> Mask:
    """Which stamped elements were touched after a moment; those that are null count as such."""
    stamps = flat.field(flat.type.get_field_index(STAMP)).fill_null(0)
    is_null: Mask = flat.is_null().to_numpy(zero_copy_only=False)
    keep: Mask = (stamps.to_numpy(zero_copy_only=False) > horizon_us) | is_null
    return keep


def without_expired(rows: StateTable, stored_as: str, horizon_us: int) -> StateTable:
    """The rows of a state with a time to live, with deletions in the place of what has expired."""
    elements = Elements.of(rows, stored_as)
    keep = not_expired(elements.flat, horizon_us)
    return rows if keep.all() else elements.with_values(elements.flat, keep)
