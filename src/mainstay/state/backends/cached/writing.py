"""Writing rows of segments into a database. Runs in the background, or before the loop begins.

Rows are applied in the order in which they are stored, by the rules of ``operations``. Appending,
to a list or to rows of accumulators, and clearing a map need to know what is there; everything else
is written blindly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.cached.appending import put_whole
from mainstay.state.backends.cached.lists import GENERATION, CachedLists
from mainstay.state.backends.cached.maps import CachedMaps
from mainstay.state.backends.cached.rows import Groups, prefix_end
from mainstay.state.backends.cached.stored_rows import Change, WritableRows
from mainstay.state.backends.cached.tables import CachedTable
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, PUT

_SLICE_ROWS = 16384
"""As many as can be put in order without holding the interpreter for long."""


def write_rows(database: WritableRows, table: Any, rows: StateTable, generation: int) -> None:
    """Apply the rows of a segment to the database."""
    rows = put_whole(table, rows, database)
    for start in range(0, rows.table.num_rows, _SLICE_ROWS):
        part = rows.table.slice(start, _SLICE_ROWS).combine_chunks()
        groups = rows.groups[start : start + _SLICE_ROWS]
        if not isinstance(table, CachedLists | CachedMaps):
            _write_values(database, table, part, groups)
            continue
        row_keys = table.rows.of_column(table.stored_key.column(part), groups)
        ops = part.column("op").to_pylist()
        if isinstance(table, CachedLists):
            _write_lists(database, table, row_keys, ops, part, generation)
        else:
            _write_maps(database, table, row_keys, ops, part)


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()


def _write_values(database: WritableRows, table: Any, rows: pa.Table, groups: Groups) -> None:
    """By row key: what is written in order costs the database half as much."""
    row_keys, order = table.rows.in_order(table.stored_key.column(rows), groups)
    rows = rows.take(pa.array(order))
    cells = table.cells.encode(_column(rows, "value"))
    # Of several rows of a key the last one counts, and is the last one here as well.
    gone = np.flatnonzero(rows.column("op").to_numpy() != PUT)
    for row in gone.tolist():
        cells[row] = None
    beside = {}
    if table.has_rows_beside:
        beside = table.beside(database, dict(zip(row_keys, cells, strict=True)))
    database.write_columns(row_keys, cells)
    database.write(sorted(beside.items()))


def _write_lists(
    database: WritableRows,
    table: CachedLists,
    row_keys: Sequence[bytes],
    ops: Sequence[int],
    rows: pa.Table,
    generation: int,
) -> None:
    head = GENERATION.pack(generation)
    appended = list({key for key, op in zip(row_keys, ops, strict=True) if op == APPEND})
    pending: dict[bytes, bytes | None] = {}
    if appended:
        pending = dict(zip(appended, database.get_many(appended), strict=True))
    cells = table.cells.encode(_column(rows, "value"))
    for row_key, op, cell in zip(row_keys, ops, cells, strict=True):
        if op == DELETE:
            pending[row_key] = None
            continue
        old = pending.get(row_key) if op == APPEND else None
        pending[row_key] = head + (b"" if old is None else old[GENERATION.size :]) + cell
    database.write(pending.items())


def _write_maps(
    database: WritableRows,
    table: CachedMaps,
    prefixes: Sequence[bytes],
    ops: Sequence[int],
    rows: pa.Table,
) -> None:
    names = table.key_cells.encode(_column(rows, "map_key"))
    values = _column(rows, "value")
    is_null = values.is_null().to_pylist()
    cells = table.cells.encode(values)
    pending: list[Change] = []
    for prefix, op, name, null, cell in zip(prefixes, ops, names, is_null, cells, strict=True):
        if op == DELETE:
            # What is to be found must have been written.
            database.write(pending)
            pending = [(key, None) for key, _ in database.scan(prefix, prefix_end(prefix))]
        elif op == ENTRY_PUT:
            pending.append((prefix + name, b"\0" if null else b"\1" + cell))
        else:
            pending.append((prefix + name, None))
    database.write(pending)


def read_rows(table: CachedTable, rows: Sequence[tuple[bytes, bytes]]) -> list[pa.Array]:
    """The columns of a segment that say the same as rows of a database; the first is the key's."""
    keys = [row_key for row_key, _ in rows]
    cells = [cell for _, cell in rows]
    if isinstance(table, CachedMaps):
        prefixes, names = zip(*(table.rows.entry_cell(row_key) for row_key in keys), strict=True)
        found = zip(
            table.rows.keys(prefixes),
            [ENTRY_PUT] * len(rows),
            table.key_cells.decode(names),
            table.decoded_values(cells),
            strict=True,
        )
        return table.columns(list(found))
    if isinstance(table, CachedLists):
        lists = [table.cells.decode(cell)[1] for cell in cells]
        return table.columns(
            list(zip(table.rows.keys(keys), [PUT] * len(rows), lists, strict=True))
        )
    values = table.info.value.to_array(table.cells.decode(cells))  # type: ignore[attr-defined]
    return [table.key.to_array(table.rows.keys(keys)), pa.array([PUT] * len(rows), "int8"), values]
