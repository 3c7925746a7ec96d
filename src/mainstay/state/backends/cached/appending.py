"""Rows of accumulators that append, over a database that has one row for each key.

What they append to is read, and what comes out is put.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.growing_rows import are_appending, with_puts
from mainstay.state.merge import merge
from mainstay.state.operations import APPEND, PUT

Changes = Mapping[Any, Any]


def put_whole(
    table: Any, rows: StateTable, database: StoredRows, unwritten: Sequence[Changes] = ()
) -> StateTable:
    """The rows of a segment, of which each says all that there is of its key.

    ``unwritten`` are changes before them that the database does not have yet, oldest first.
    """
    if not are_appending(rows.table):
        return rows
    appended = rows.table.filter(pa.array(rows.table.column("op").to_numpy() == APPEND))
    keys = dict.fromkeys(table.stored_key.kept(appended))
    kept = dict(_kept(table, list(keys), database, unwritten))
    before = [_stored(table, kept, rows)] if kept else []
    joined = merge([*before, rows], to_base=False)
    return replace(joined, table=with_puts(joined.table))


def _kept(
    table: Any, keys: Sequence[Any], database: StoredRows, unwritten: Sequence[Changes]
) -> Iterable[tuple[Any, Any]]:
    """The keys that something is kept for, and what."""
    left = []
    for key in keys:
        newest = next((part for part in reversed(unwritten) if key in part), None)
        if newest is None:
            left.append(key)
        elif newest[key] is not None:
            yield key, newest[key]
    cells = zip(left, database.get_many(table.rows.of(left)), strict=True)
    there = [(key, cell) for key, cell in cells if cell is not None]
    decoded = table.cells.decode([cell for _, cell in there])
    yield from zip((key for key, _ in there), decoded, strict=True)


def _stored(table: Any, kept: Changes, rows: StateTable) -> StateTable:
    """What is kept as rows of a segment."""
    column = table.key.to_array(list(kept))
    ops = pa.array(np.full(len(kept), PUT, np.int8))
    values = table.column(list(kept.values()))
    batch = table.stored_key.batch([column, ops, values], rows.table.schema)
    groups = table.stored_key.groups(column, table.max_parallelism)
    return StateTable(rows.name, pa.Table.from_batches([batch]), groups)
