"""Merging: the rows of several segments of one state into fewer, meaning the same.

All of it is native column work, because it runs beside the loop of the worker. The two rules of
``operations`` decide which rows are useless; tombstones go only when the result is a base, since
before that an older file may still hold what they delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.snapshot.statefile import StateTable
from mainstay.state.operations import DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT


def merge(parts: Sequence[StateTable], *, to_base: bool) -> StateTable:
    """One table for all parts of one state, which are given oldest first."""
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    groups = np.concatenate([part.groups for part in parts])
    keep = _useful(table)
    if to_base:
        ops = table.column("op").to_numpy()
        keep &= (ops != DELETE) & (ops != ENTRY_REMOVE)
    kept = np.flatnonzero(keep)
    return StateTable(parts[0].name, table.take(pa.array(kept)), groups[kept])


def _useful(table: pa.Table) -> npt.NDArray[Any]:
    ops = table.column("op").to_numpy()
    rows = np.arange(len(ops))
    keys = _codes(table.column("key").combine_chunks())
    keep: npt.NDArray[Any] = _last(keys, (ops == PUT) | (ops == DELETE))[keys] <= rows
    if "map_key" in table.column_names:
        entries = _combined(keys, _codes(table.column("map_key").combine_chunks()))
        is_entry = (ops == ENTRY_PUT) | (ops == ENTRY_REMOVE)
        keep &= ~is_entry | (_last(entries, is_entry)[entries] <= rows)
    return keep


def _last(codes: npt.NDArray[Any], mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """For each code, the last row where the mask holds, or -1."""
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    rows = np.flatnonzero(mask)
    # Assigning in order leaves the last row of each code in place.
    last[codes[rows]] = rows
    return last


def _codes(column: pa.Array) -> npt.NDArray[Any]:
    """A small integer for each row, equal where the values are equal."""
    if pa.types.is_struct(column.type):
        # A struct that is null is not the one whose fields are.
        nulls: npt.NDArray[Any] = column.is_null().to_numpy(zero_copy_only=False)
        codes = nulls.astype(np.int64)
        for field in column.flatten():
            codes = _combined(codes, _codes(field))
        return codes
    if pa.types.is_floating(column.type):
        # Adding zero turns -0.0 into 0.0, which is the same key, and changes nothing else.
        column = pc.add(column, pa.scalar(0.0, column.type))
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    indices: npt.NDArray[Any] = encoded.indices.to_numpy(zero_copy_only=False)
    return indices.astype(np.int64)


def _combined(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    pairs = first * (int(second.max(initial=0)) + 1) + second
    return np.unique(pairs, return_inverse=True)[1].reshape(-1)
