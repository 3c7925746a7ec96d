"""Whole state: what the rows of a chain come to, without operations, and back.

A chain says what was done; whole state says what is: one row per key, or per pair of a key and a
namespace, and for maps one per entry. It is what a savepoint holds and what other programs read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema import sizes
from mainstay.schema.sizes import row_sizes, runs_within
from mainstay.schema.transpose import shown
from mainstay.snapshot.savepoint_files import KeyedRows
from mainstay.snapshot.statefile import StateTable
from mainstay.state.codes import grouped
from mainstay.state.growing_rows import are_appending, joined_lists, joined_rows
from mainstay.state.merge import merge
from mainstay.state.operations import ENTRY_PUT, PUT
from mainstay.state.stored_key import codes_in, key_columns


def to_whole(parts: Sequence[StateTable], kind: str) -> KeyedRows | None:
    """What the parts of one state, oldest first, come to; None where nothing is left.

    ``kind`` is how it is stored.
    """
    if not parts:
        return None
    merged = merge(parts, to_base=True)
    if not merged.table.num_rows:
        return None
    table, groups = merged.table.drop_columns(["op"]), merged.groups
    if kind == "list":
        pieces = list(_in_one_row(merged.name, table, groups, _lists))
    elif are_appending(merged.table):
        pieces = list(_in_one_row(merged.name, merged.table, groups, _accumulators))
    else:
        return KeyedRows(merged.name, table, groups)
    whole = pa.concat_tables([part.table for part in pieces])
    return KeyedRows(merged.name, whole, np.concatenate([part.groups for part in pieces]))


def _in_one_row(
    state: str,
    table: pa.Table,
    groups: np.ndarray,
    join: Callable[[str, pa.Table, np.ndarray], KeyedRows],
) -> Iterator[KeyedRows]:
    """A list may still be in pieces: what was put, and what was appended since."""
    if table.nbytes <= sizes.ARRAY_BYTES:
        yield join(state, table, groups)
        return
    codes = codes_in(table)
    by_key = np.bincount(codes, weights=row_sizes(table)).astype(np.int64)
    for first, after in runs_within(by_key, sizes.ARRAY_BYTES):
        inside = (codes >= first) & (codes < after)
        part = table.filter(pa.array(inside))
        if part.nbytes > sizes.ARRAY_BYTES and part.num_rows > 1:
            raise StateTypeError(
                f"state {state!r}: the list of key {shown(part.column('key')[0].as_py())} takes "
                "more than 2 GiB. A snapshot keeps it in pieces, but a savepoint has one row for "
                "each key, and no row can hold it. Divide it over several keys."
            )
        yield join(state, part, groups[inside])


def _lists(state: str, table: pa.Table, groups: np.ndarray) -> KeyedRows:
    order, bounds = grouped(codes_in(table))
    names = key_columns(table)
    keys = table.select(names).take(pa.array(order[bounds[:-1]])).columns
    lists = table.drop_columns(names).take(pa.array(order)).columns
    joined = [joined_lists(pieces.combine_chunks(), bounds) for pieces in lists]
    whole = pa.Table.from_arrays([*keys, *joined], schema=table.schema)
    return KeyedRows(state, whole, groups[order[bounds[:-1]]])


def _accumulators(state: str, table: pa.Table, groups: np.ndarray) -> KeyedRows:
    whole, rows = joined_rows(table)
    return KeyedRows(state, whole.drop_columns(["op"]), groups[rows])


def to_rows(whole: KeyedRows) -> StateTable:
    """Whole state as the rows of a segment, which say to put it all."""
    is_map = "map_key" in whole.table.column_names
    ops = pa.array(np.full(whole.table.num_rows, ENTRY_PUT if is_map else PUT, np.int8))
    place = len(key_columns(whole.table))
    return StateTable(whole.state, whole.table.add_column(place, "op", ops), whole.groups)
