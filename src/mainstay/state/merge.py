"""Merging: the rows of several segments of one state into fewer, meaning the same.

All of it is native column work, because it runs in the background of a worker. The two rules of
``operations`` decide which rows are useless, after those that later parts drop, and rows of
accumulators that append become one for each key (``growing_rows``); tombstones and
drops go only when the result is a base, since before that an older file may still hold what they
delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema import sizes
from mainstay.schema.sizes import combined
from mainstay.snapshot.statefile import StateTable
from mainstay.state.codes import codes_of, paired
from mainstay.state.dropping import drops_of, surviving
from mainstay.state.grouping import Grouper
from mainstay.state.growing_rows import are_appending, joined_rows, with_puts
from mainstay.state.operations import DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.stored_key import StoredKey, codes_in, key_columns


def merge(parts: Sequence[StateTable], *, to_base: bool) -> StateTable:
    """One table for all parts of one state, which are given oldest first."""
    drops = () if to_base else drops_of(parts)
    parts = surviving(parts)
    table = pa.concat_tables([part.table for part in parts])
    groups = np.concatenate([part.groups for part in parts])
    if table.nbytes > sizes.ARRAY_BYTES:
        # Chunk by chunk: all of it does not fit into one array.
        keep = _kept(table, to_base)
        return StateTable(parts[0].name, table.filter(pa.array(keep)), groups[keep], drops=drops)
    table = table.combine_chunks()
    if are_appending(table):
        return _joined(StateTable(parts[0].name, table, groups, drops=drops), to_base)
    kept = np.flatnonzero(_kept(table, to_base))
    return StateTable(parts[0].name, table.take(pa.array(kept)), groups[kept], drops=drops)


def _joined(rows: StateTable, to_base: bool) -> StateTable:
    """One row for each key of rows of which some append."""
    kept = np.flatnonzero(useful(rows.table))
    table, last = joined_rows(rows.table.take(pa.array(kept)))
    groups = rows.groups[kept[last]]
    if to_base:
        # Nothing is left that it would be appended to.
        is_there = table.column("op").to_numpy() != DELETE
        table, groups = with_puts(table.filter(pa.array(is_there))), groups[is_there]
    return replace(rows, table=table, groups=groups)


def last_values(rows: pa.Table, stored: StoredKey, grouper: Grouper) -> tuple[pa.Array, pa.Array]:
    """The distinct keys of stored values, and the last value of each."""
    keys, values = stored.column(rows), combined(rows.column("value"))
    groups = grouper.group(keys)
    if groups.codes is None:
        return keys, values
    last = np.empty(groups.count, np.int64)
    last[groups.codes] = np.arange(len(keys))
    return keys.take(pa.array(last)), values.take(pa.array(last))


def one_for_each(table: pa.Table) -> pa.Table:
    """The rows of values, or of accumulators, with one for each key: what all of it come to."""
    table = table.filter(pa.array(useful(table)))
    return joined_rows(table)[0] if are_appending(table) else table


def _kept(table: pa.Table, to_base: bool) -> npt.NDArray[Any]:
    """Which rows are still of use."""
    keep = useful(table)
    if to_base:
        ops = table.column("op").to_numpy()
        keep &= (ops != DELETE) & (ops != ENTRY_REMOVE)
    return keep


def useful(table: pa.Table) -> npt.NDArray[Any]:
    """Which rows no later one makes useless."""
    ops = table.column("op").to_numpy()
    if bool(np.all((ops == PUT) | (ops == DELETE))):
        # Each row makes every earlier one of its key useless.
        are_last = _are_last(table)
        if are_last is not None:
            return are_last
    rows = np.arange(len(ops))
    keys = codes_in(table)
    keep: npt.NDArray[Any] = _last(keys, (ops == PUT) | (ops == DELETE))[keys] <= rows
    if "map_key" in table.column_names:
        entries = paired(keys, codes_of(combined(table.column("map_key"))))
        is_entry = (ops == ENTRY_PUT) | (ops == ENTRY_REMOVE)
        keep &= ~is_entry | (_last(entries, is_entry)[entries] <= rows)
    return keep


def _are_last(table: pa.Table) -> npt.NDArray[np.bool_] | None:
    """Which rows are the last ones of what they are stored under; None where nothing is quick."""
    if len(names := key_columns(table)) == 1:
        return Grouper().are_last(combined(table.column(names[0])))
    return Grouper().are_last(pa.array(codes_in(table)))


def _last(codes: npt.NDArray[Any], mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """For each code, the last row where the mask holds, or -1."""
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    rows = np.flatnonzero(mask)
    # Assigning in order leaves the last row of each code in place.
    last[codes[rows]] = rows
    return last
