"""Rows of accumulators that append: the rows of a key become one, on columns.

What a row of a segment appends are the fields that are lists; of the others the last row has what
is kept (see ``operations``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema.sizes import combined
from mainstay.state.codes import grouped
from mainstay.state.operations import APPEND, DELETE, PUT
from mainstay.state.stored_key import codes_in

Rows = npt.NDArray[np.int64]


def are_appending(table: pa.Table) -> bool:
    """Whether some of the rows append to rows of accumulators."""
    if not pa.types.is_struct(table.schema.field("value").type):
        return False
    return bool((table.column("op").to_numpy() == APPEND).any())


def joined_rows(table: pa.Table) -> tuple[pa.Table, Rows]:
    """One row for all of a key, of which none makes an earlier one useless but by appending to it;
    and for each of them the row that it stands in the place of."""
    order, bounds = grouped(codes_in(table))
    if len(bounds) - 1 == table.num_rows:
        return table, np.arange(table.num_rows)
    # In the order of the last rows of keys, as if the others had not been there.
    first, last = order[bounds[:-1]], order[bounds[1:] - 1]
    ops = np.array(table.column("op").to_numpy())[first]
    ops[(ops == DELETE) & (first != last)] = PUT
    value = _joined_values(combined(table.column("value")), order, bounds)
    by_last = np.argsort(last)
    rows = last[by_last]
    found = table.take(pa.array(rows))
    found = _with(found, "op", pa.array(ops[by_last]))
    return _with(found, "value", value.take(pa.array(by_last))), rows


def with_puts(table: pa.Table) -> pa.Table:
    """The same rows, which are put where they would be appended."""
    ops = np.array(table.column("op").to_numpy())
    ops[ops == APPEND] = PUT
    return _with(table, "op", pa.array(ops))


def _with(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    number = table.column_names.index(name)
    return table.set_column(number, table.schema.field(number), column)


def _joined_values(value: pa.StructArray, order: Rows, bounds: Rows) -> pa.StructArray:
    last = order[bounds[1:] - 1]
    at_last, ordered = pa.array(last), pa.array(order)
    fields = [
        joined_lists(field.take(ordered), bounds)
        if pa.types.is_list(field.type)
        else field.take(at_last)
        for field in value.flatten()
    ]
    gone = value.is_null().take(at_last) if value.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(value.type), mask=gone)


def joined_lists(pieces: pa.ListArray, bounds: npt.NDArray[Any]) -> pa.ListArray:
    """One list for each run of pieces."""
    lengths = pieces.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    offsets = pa.array(ends[bounds], pa.int32())
    return pa.ListArray.from_arrays(offsets, pieces.flatten(), type=pieces.type)
