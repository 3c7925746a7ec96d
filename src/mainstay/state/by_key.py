"""Rows of a segment in the order in which one key is found fast: by key-group, then by hash.

Rows of one key stay in their order, which is that of application.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.hashing import hash_columns
from mainstay.state.stored_key import KEY

SORTED_BYTES = 512 << 20
"""Sorting copies. What is larger is left as it is, and searched by key-group."""
_BITS = np.uint64(24)
MOST_ROWS = 1 << int(_BITS)
_MASK = np.uint64(MOST_ROWS - 1)


def place_in_group(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """What rows are sorted by within a key-group: the upper bits of the hash of their key."""
    return (hashes >> np.uint64(64 - int(_BITS))).astype(np.uint32)


def by_key(rows: StateTable) -> StateTable:
    """The rows sorted by key-group and hash. Runs in the background."""
    count = rows.table.num_rows
    if rows.table.nbytes > SORTED_BYTES or not 0 < count <= MOST_ROWS:
        return rows
    places = place_in_group(hash_columns([rows.table.column(KEY)])).astype(np.uint64)
    # With the number of its row each is unique: sorting needs not be stable, and numpy sorts words
    # many times as fast as it finds the order of words.
    sorted_ = (rows.groups.astype(np.uint64) << _BITS | places) << _BITS | np.arange(
        count, dtype=np.uint64
    )
    sorted_.sort()
    order = (sorted_ & _MASK).astype(np.int64)
    hashes = (sorted_ >> _BITS & _MASK).astype(np.uint32)
    if bool((order[1:] > order[:-1]).all()):
        return replace(rows, hashes=hashes)  # they are in order
    table = rows.table.take(pa.array(order))
    return replace(rows, table=table, groups=rows.groups[order], hashes=hashes)
