"""The heap backend: the keyed state of a subtask in the memory of its process.

A write changes the live view and the active segment. Freezing hands the active segment out and
opens an empty one, which costs the same whatever the size of the state; reads never look at
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.current import CurrentBackend
from mainstay.state.backends.heap.collections import HeapLists, HeapMaps
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.backends.heap.panes import HeapPanes
from mainstay.state.backends.heap.rows import HeapRows
from mainstay.state.backends.heap.spans import HeapSpans
from mainstay.state.backends.heap.value_arrays import HeapValueArrays, is_fixed
from mainstay.state.backends.heap.value_columns import HeapValueColumns
from mainstay.state.backends.heap.values import HeapValues
from mainstay.state.backends.tables import Tables
from mainstay.state.columns import has_panes
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.kind import Shape
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import stored_info
from mainstay.state.values import ValueType


def columns_of(info: StateInfo, stored: StoredKey) -> HeapColumns | HeapPanes:
    """The table of accumulators, in panes where they are kept by something that has an order."""
    return HeapPanes(info, stored) if has_panes(info) else HeapColumns(info, stored)


def values_of_columns(info: StateInfo, stored: StoredKey) -> HeapValueArrays | HeapValueColumns:
    """The table of values that are read and written by the column, in arrays where they can be."""
    return (HeapValueArrays if is_fixed(info.value.arrow) else HeapValueColumns)(info, stored)


TABLES: dict[Shape, Callable[[StateInfo, StoredKey], Any]] = {
    "value": HeapValues,
    "column": values_of_columns,
    "list": HeapLists,
    "map": HeapMaps,
    "columns": columns_of,
    "rows": HeapRows,
    "spans": HeapSpans,
}


class HeapBackend(CurrentBackend):
    """The keyed state of one subtask of one operator, in this process's memory."""

    def __init__(
        self,
        infos: Sequence[StateInfo],
        key: ValueType,
        max_parallelism: int,
        context: KeyContext,
    ) -> None:
        tables = {
            info.name: TABLES[info.kind.shape](info, StoredKey.of(key, info.namespace))
            for info in map(stored_info, infos)
        }
        super().__init__(Tables(infos, key, max_parallelism, context, tables))

    def mark_all_changed(self, applied: Sequence[StateTable] = ()) -> None:
        for name, table in self.tables.items():
            mine = [rows for rows in applied if rows.name == name]
            if not (mine and isinstance(table, HeapValues) and table.changed_as(mine)):
                table.mark_all_changed()

    def relieve(self) -> None:
        """Keep the active segment from growing in one piece."""
        for table in self.tables.values():
            table.relieve()
