"""Dropped panes over a database, which has a row for each of their keys and no order of panes.

A segment says which panes are gone. A database has to be told which rows that is: the table knows
it of what it has dropped itself. Of a segment that is read again nobody does any more, and so the
rows of the key-groups are looked through, once for each such segment of a restore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.drops import Drops
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.cached.rows import PREFIX, prefix_end
from mainstay.state.backends.cached.stored_rows import StoredRows
from mainstay.state.backends.changes import DELETED
from mainstay.state.dropping import DroppedPanes, dropped_pairs
from mainstay.state.operations import DELETE

_LOOKED_AT = 4096


class DroppingTable:
    """What a table that drops panes has more; it inherits from this first."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.dropped = DroppedPanes()

    frozen: list[tuple[int, dict[Any, Any]]]

    def freeze_as(self, generation: int) -> list[Any]:
        dropped, self.dropped = self.dropped, DroppedPanes()
        parts: list[Any] = super().freeze_as(generation)  # type: ignore[misc]
        return [dropped, *parts] if dropped else parts

    def gone_in(self, generation: int) -> list[Any]:
        """The pairs whose rows went with the panes that a frozen segment dropped."""
        parts = (part for number, part in self.frozen if number == generation)
        return [pair for part in parts for pair, change in part.items() if is_deletion(change)]


def is_deletion(change: Any) -> bool:
    """Whether a change of a value or of a list says that nothing is left."""
    return change is None or change is DELETED


def with_deletions(table: Any, rows: StateTable, pairs: Sequence[Any]) -> StateTable:
    """Rows of a segment that say of each pair what the segment's drops said of panes."""
    if not pairs:
        return replace(rows, drops=())
    column = table.key.to_array(pairs)
    schema = rows.table.schema
    ops, values = np.full(len(pairs), DELETE, np.int8), pa.nulls(len(pairs), schema.types[-1])
    deletions = table.stored_key.batch([column, pa.array(ops), values], schema)
    groups = table.stored_key.groups(column, table.max_parallelism)
    return replace(
        rows,
        table=pa.concat_tables([pa.Table.from_batches([deletions]), rows.table]),
        groups=np.concatenate([groups, rows.groups]),
        drops=(),
        hashes=None,
    )


def pairs_among(table: Any, row_keys: Iterable[bytes], drops: Drops) -> list[Any]:
    """The pairs of those rows that drops take away."""
    left, found = iter(row_keys), []
    while some := list(islice(left, _LOOKED_AT)):
        pairs = table.rows.keys(some)
        found += dropped_pairs(pairs, table.stored_key, drops, table.max_parallelism)
    return found


def row_keys_in(table: Any, database: StoredRows, drops: Drops) -> Iterator[bytes]:
    """The row keys of a state in the key-groups that drops are of."""
    groups = {group for drop in drops for group in range(drop.first_group, drop.last_group + 1)}
    for group in sorted(groups):
        prefix = PREFIX.pack(group, table.rows.number)
        for row_key, _ in database.scan(prefix, prefix_end(prefix)):
            yield row_key
