"""Backends whose tables always hold everything: nothing follows behind, and nothing is absorbed.

What is common to them is here; they differ in their tables, and in what a base is to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import Base, Frozen, PathOf, Restore, Work
from mainstay.state.backends.over_tables import BackendOverTables

SLICE_ROWS = 16384
"""Rows applied between two chances for the loop to do something else. While a state is restored
that is to hear messages: no rows are taken before all of it is applied."""


class CurrentBackend(BackendOverTables):
    """The keyed state of one subtask of one operator. Reads never look at segments."""

    is_large = is_full = is_busy = False
    not_absorbed: frozenset[str] = frozenset()

    def prefetch(self, keys: Sequence[Any]) -> None:
        """Everything is where it is read."""

    def relieve(self) -> None:
        """Nothing grows in one piece."""

    def freeze(self) -> Frozen:
        """Take the active segment away and open an empty one, O(states)."""
        frozen = {name: table.freeze() for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def frozen_as(self, segment: str) -> None:
        """Reads never look at segments."""

    def on_durable(self, segment: str, tables: list[StateTable]) -> None:
        """The tables have it all."""

    def next_work(self) -> Work | None:
        return None

    def begin_base(self, base: Base) -> bool:
        return False

    def restore(self, start: Restore) -> list[StateTable]:
        return [table for ref in start.chain for table in start.read(ref)]

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef | None:
        return None

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, a slice at a time, without making them changes again."""
        if rows.name not in self.tables:
            return
        table = self.tables[rows.name]
        if rows.drops:
            table.apply_drops(rows.drops, self.tables.max_parallelism)
            yield
        for start in range(0, rows.table.num_rows, SLICE_ROWS):
            table.apply(rows.table.slice(start, SLICE_ROWS))
            yield

    def mark_all_changed(self, applied: Sequence[StateTable] = ()) -> None:
        for table in self.tables.values():
            table.mark_all_changed()

    def close(self) -> None:
        """Memory goes with the process."""
