"""Rows by pane as an operator sees them: lists of rows by key and pane, kept and read in columns.

A *pane* is the namespace of such a state, a whole number: the start of a span of time, mostly. An
operator appends batches to panes, reads panes, and drops them whole. In files, and for everyone
who looks at the state from outside, it is a list state with a namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.info import StateInfo
from mainstay.state.peeking import given_list

if TYPE_CHECKING:
    from mainstay.state.keyed import AnyContext

Panes = npt.NDArray[np.int64]


class Chunk:
    """Rows of one pane with their keys, in the order in which they came.

    ``note`` is the operator's: what it has worked out of these rows and wants to find again. A
    table that joins chunks asks it for the note of all (``RowsHandle.on_joined``).
    """

    __slots__ = ("keys", "note", "rows")

    def __init__(self, keys: pa.Array, rows: pa.RecordBatch, note: Any = None) -> None:
        self.keys = keys
        self.rows = rows
        self.note = note

    def __len__(self) -> int:
        return len(self.keys)


Joined = Callable[[Sequence[Chunk], Chunk], None]
"""Hears that some chunks, the oldest first, became one, which has no note yet."""


class RowsTable(Protocol):
    """What a backend offers for rows by pane."""

    on_joined: Joined | None
    peek: Callable[[Any], Any]
    """The rows of a pair of a key and a pane as they are kept; None where there are none."""

    def panes(self) -> list[int]:
        """The panes that have rows, in ascending order."""

    def chunks(self, pane: int, keys: pa.Array | None = None) -> Sequence[Chunk]:
        """The rows of a pane; those of other keys than ``keys``, if some are named, may be left
        out. Of rows that ``put_rows`` has replaced some may still be there, before the new ones.
        """

    def append_rows(
        self, keys: pa.Array, rows: pa.RecordBatch, pane: int, note: Any = None
    ) -> None:
        """Add rows to a pane, with the operator's note where chunks have one."""

    def put_rows(self, keys: pa.Array, rows: pa.RecordBatch, pane: int) -> None:
        """Keep one row for each of some distinct keys, in the place of those that it has."""

    def drop_pane(self, pane: int) -> None:
        """Forget all rows of a pane."""

    def whole_pane(self, pane: int) -> Chunk | None:
        """All rows of a pane, and only those that count; None where there are none."""


class RowsHandle:
    """The state of an operator that keeps rows."""

    __slots__ = ("_context", "_table", "append_to", "chunks", "drop", "info", "panes", "put")

    def __init__(self, info: StateInfo, table: RowsTable, context: AnyContext) -> None:
        self.info = info
        self._table = table
        self._context = context
        self.panes = table.panes
        self.chunks = table.chunks
        self.drop = table.drop_pane
        self.put = table.put_rows
        self.append_to = table.append_rows

    def get(self) -> list[Any]:
        """The rows of the current key in the current pane."""
        return given_list(self.info, self._table.peek(self._context.current_key))

    def on_joined(self, hear: Joined) -> None:
        """Have this called for chunks that the table joins."""
        self._table.on_joined = hear

    def append(self, keys: pa.Array, rows: pa.RecordBatch, panes: int | Panes) -> None:
        """Add rows to one pane, or each to its own."""
        for pane, some_keys, some in by_pane(keys, rows, panes):
            self.append_to(some_keys, some, pane)

    def rows(self, pane: int) -> tuple[pa.Array, pa.RecordBatch]:
        """The keys and the rows of a pane; those of a key are in the order in which they came."""
        found = self._table.whole_pane(pane)
        if found is None:
            return empty_keys(self._table), no_rows(self.info)
        return found.keys, found.rows

    def replace(self, pane: int, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Keep only these rows of a pane."""
        self.drop(pane)
        if len(keys):
            self.append_to(keys, rows, pane)


def by_pane(
    keys: pa.Array, rows: pa.RecordBatch, panes: int | Panes
) -> Iterator[tuple[int, pa.Array, pa.RecordBatch]]:
    """The rows of each pane, in the order in which they come."""
    if not len(keys):
        return
    if isinstance(panes, int):
        yield panes, keys, rows
        return
    if (panes == panes[0]).all():
        yield int(panes[0]), keys, rows
        return
    if (panes[1:] < panes[:-1]).any():
        order = np.argsort(panes, kind="stable")
        taken = pa.array(order)
        keys, rows, panes = keys.take(taken), rows.take(taken), panes[order]
    edges = np.flatnonzero(np.diff(panes)) + 1
    bounds = [0, *edges.tolist(), len(panes)]
    for start, end in pairwise(bounds):
        yield int(panes[start]), keys.slice(start, end - start), rows.slice(start, end - start)


def as_struct(info: StateInfo, rows: pa.RecordBatch) -> pa.StructArray:
    """Rows as one column of the state's type."""
    return pa.StructArray.from_arrays(rows.columns, fields=list(info.value.arrow))


def from_struct(info: StateInfo, column: pa.StructArray) -> pa.RecordBatch:
    """The rows of a column of the state's type."""
    return pa.RecordBatch.from_arrays(column.flatten(), schema=schema_of(info))


def schema_of(info: StateInfo) -> pa.Schema:
    return pa.schema(list(info.value.arrow))


def no_rows(info: StateInfo) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema_of(info))


def empty_keys(table: Any) -> pa.Array:
    return pa.array([], table.key.key.arrow)
