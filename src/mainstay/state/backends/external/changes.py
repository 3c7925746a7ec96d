"""From the rows of a segment to the changes of a database's rows, and to changes in memory.

A segment says what was done, in order. A database is told what comes out of that for each of its
rows, once: so the order of its statements does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.cached.dropping import with_deletions
from mainstay.state.backends.cached.lists import CachedLists
from mainstay.state.backends.cached.maps import CachedMaps
from mainstay.state.backends.cached.rows import PREFIX
from mainstay.state.backends.changes import DELETED, append_to, decoded, entries_of
from mainstay.state.backends.external.store import PART, StateChanges
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, PUT
from mainstay.state.stored_key import key_columns

Changes = list[StateChanges]
GROUP_BYTES = 2
_NUMBER = bytes(PREFIX.size - GROUP_BYTES)
_NOTHING = b"\0"


def key_of(row_key: bytes) -> bytes:
    """``k`` of a row key: without the number, because each state has a table of its own."""
    return row_key[:GROUP_BYTES] + row_key[PREFIX.size :]


def row_key_of(k: bytes) -> bytes:
    """The row key of ``k``."""
    return k[:GROUP_BYTES] + _NUMBER + k[GROUP_BYTES:]


def changes_in(tables: Mapping[str, Any], segment: Sequence[StateTable], number: int) -> Changes:
    """What the rows of a segment, the numberth of its chain, come to, in order.

    A state may have several tables in it.
    """
    mine = [rows for rows in segment if rows.name in tables]
    mine = [_said(tables[each.name], each, number) for each in mine]
    mine = [rows for rows in mine if rows.table.num_rows]
    return [_changes_of(tables[each.name], each, number, part) for part, each in enumerate(mine)]


def _said(table: Any, rows: StateTable, number: int) -> StateTable:
    """Rows that say of each pair what a segment has dropped by panes: the table knows which."""
    return with_deletions(table, rows, table.gone_in(number)) if rows.drops else rows


def _changes_of(table: Any, rows: StateTable, number: int, piece: int) -> StateChanges:
    part = rows.table.combine_chunks()
    is_map = isinstance(table, CachedMaps)
    row_keys = table.rows.of_column(table.stored_key.column(part), rows.groups)
    keys = [key_of(row_key) for row_key in row_keys]
    ops = part.column("op").to_pylist()
    if is_map:
        return _of_maps(table, part, keys, ops)
    if isinstance(table, CachedLists):
        return _of_lists(table, part, keys, ops, PART.pack(number, piece))
    return _of_values(table, part, keys, ops)


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _of_values(table: Any, part: pa.Table, keys: list[bytes], ops: list[int]) -> StateChanges:
    last = dict(zip(keys, range(len(keys)), strict=True))
    put = sorted((k, row) for k, row in last.items() if ops[row] == PUT)
    taken = part.take(pa.array([row for _, row in put], pa.int64()))
    cells = table.cells.encode(_column(taken, "value")) if put else []
    return StateChanges(
        table.info.name,
        [],
        sorted((k, b"") for k, row in last.items() if ops[row] != PUT),
        [(k, b"", cell) for (k, _), cell in zip(put, cells, strict=True)],
        taken.drop_columns(["op"]),
    )


def _of_maps(table: Any, part: pa.Table, keys: list[bytes], ops: list[int]) -> StateChanges:
    names = table.key_cells.encode(_column(part, "map_key"))
    values = _column(part, "value")
    is_null, cells = values.is_null().to_pylist(), table.cells.encode(values)
    cleared: dict[bytes, None] = {}
    entries: dict[bytes, dict[bytes, int]] = {}
    for row, (k, op) in enumerate(zip(keys, ops, strict=True)):
        if op == DELETE:
            cleared[k] = None
            entries.pop(k, None)
        else:
            entries.setdefault(k, {})[names[row]] = row
    found = sorted((k, s, row) for k, some in entries.items() for s, row in some.items())
    put = [each for each in found if ops[each[2]] == ENTRY_PUT]
    return StateChanges(
        table.info.name,
        sorted(cleared),
        [(k, s) for k, s, row in found if ops[row] != ENTRY_PUT],
        [(k, s, _NOTHING if is_null[row] else b"\1" + cells[row]) for k, s, row in put],
        part.take(pa.array([row for _, _, row in put], pa.int64())).drop_columns(["op"]),
    )


def _of_lists(
    table: Any, part: pa.Table, keys: list[bytes], ops: list[int], s: bytes
) -> StateChanges:
    cells = table.cells.encode(_column(part, "value"))
    cleared: dict[bytes, None] = {}
    rows: dict[bytes, list[int]] = {}
    for row, (k, op) in enumerate(zip(keys, ops, strict=True)):
        if op != APPEND:
            cleared[k] = None
            rows[k] = []
        if op != DELETE:
            rows.setdefault(k, []).append(row)
    put = sorted((k, some) for k, some in rows.items() if some)
    return StateChanges(
        table.info.name,
        sorted(cleared),
        [],
        [(k, s, b"".join(cells[row] for row in some)) for k, some in put],
        _joined_lists(part, [some for _, some in put]),
    )


def _joined_lists(part: pa.Table, rows: Sequence[Sequence[int]]) -> pa.Table:
    """A row for each key, with the elements of all its rows."""
    taken = part.take(pa.array([row for some in rows for row in some], pa.int64()))
    lists = _column(taken, "value")
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(some) for some in rows])])
    firsts = pa.array(bounds[:-1].astype(np.int64))
    offsets = pa.array(ends[bounds.astype(np.int64)], pa.int32())
    joined = pa.ListArray.from_arrays(offsets, lists.flatten(), type=lists.type)
    keys = {name: _column(taken, name).take(firsts) for name in key_columns(taken)}
    return pa.table({**keys, "value": joined})


def noted(table: Any, rows: StateTable) -> dict[Any, Any]:
    """The rows of a segment as the changes that a table keeps of a frozen one."""
    changes: dict[Any, Any] = {}
    is_map, is_list = isinstance(table, CachedMaps), isinstance(table, CachedLists)
    for key, op, map_key, kept in decoded(rows.table, table.info, table.stored_key):
        if is_map:
            if op == DELETE:
                changes[key] = (True, {})
            else:
                entries_of(changes, key)[map_key] = kept if op == ENTRY_PUT else DELETED
        elif not is_list:
            changes[key] = kept if op == PUT else None
        elif op == APPEND:
            append_to(changes, key, kept)
        else:
            changes[key] = DELETED if op == DELETE else (True, list(kept))
    return changes
