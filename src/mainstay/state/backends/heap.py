"""The heap backend: the keyed state of a subtask in the memory of its process.

A write changes the live view and the active segment. Freezing hands the active segment out and
opens an empty one, which costs the same whatever the size of the state; reads never look at
segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.heap_tables import SLICE_ROWS, TABLES, Parts
from mainstay.state.declaration import StateInfo
from mainstay.state.handles import HANDLES
from mainstay.state.hashing import key_groups
from mainstay.state.keyed import KeyContext
from mainstay.state.operations import columns_of
from mainstay.state.ttl import stored_info
from mainstay.state.ttl_tables import TTL_TABLES
from mainstay.state.values import ValueType

Frozen = dict[str, Parts]


class HeapBackend:
    """The keyed state of one subtask of one operator, in this process's memory."""

    def __init__(
        self,
        infos: Sequence[StateInfo],
        key: ValueType,
        max_parallelism: int,
        context: KeyContext,
    ) -> None:
        context.key_type = self.key = key
        self.max_parallelism = max_parallelism
        stored = [stored_info(info) for info in infos]
        self.tables = {info.name: TABLES[info.kind](info, key) for info in stored}
        self._open_handles(infos, context)

    def _open_handles(self, infos: Sequence[StateInfo], context: KeyContext) -> None:
        """Give every state its handle, over its table or one that minds its time to live."""
        self.expiring = {
            info.name: TTL_TABLES[info.kind](info, self.tables[info.name], context.now_us)
            for info in infos
            if info.ttl is not None
        }
        seen = {**self.tables, **self.expiring}
        self.handles = {
            info.name: HANDLES[info.kind](info, seen[info.name], context) for info in infos
        }

    def prefetch(self, keys: Sequence[Any]) -> None:
        """Rows of these keys are about to be processed. Everything is at hand."""

    def freeze(self) -> Frozen:
        """Take the active segment away and open an empty one: the logical snapshot, O(states)."""
        frozen = {name: table.freeze() for name, table in self.tables.items()}
        return {name: parts for name, parts in frozen.items() if parts}

    def relieve(self) -> None:
        """Keep the active segment from growing in one piece. Called between slices."""
        for table in self.tables.values():
            table.relieve()

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        """Turn a frozen segment into columns, a slice at a time.

        Yields an empty list after every slice, and the tables last: whoever drives it decides
        what else runs in between.
        """
        done: list[StateTable] = []
        for name, parts in frozen.items():
            table = self.tables[name]
            schema = columns_of(table.info, self.key)
            batches, groups = [], []
            for columns in table.encode(parts):
                batches.append(pa.record_batch(columns, schema=schema))
                groups.append(key_groups([columns[0]], self.max_parallelism))
                yield []
            rows = pa.Table.from_batches(batches, schema)
            done.append(StateTable(name, rows, np.concatenate(groups), table.repeats_keys(parts)))
        yield done

    def leftovers(self, frozen: Frozen) -> list[Any]:
        """The parts of a frozen segment that take time to free."""
        return [
            part for name, parts in frozen.items() for part in self.tables[name].leftovers(parts)
        ]

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, a slice at a time, without making them changes again."""
        table = self.tables[rows.name]
        for start in range(0, rows.table.num_rows, SLICE_ROWS):
            table.apply(rows.table.slice(start, SLICE_ROWS))
            yield

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything, so that it depends on no older file."""
        for table in self.tables.values():
            table.mark_all_changed()

    def entries(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, in no particular order."""
        if name in self.expiring:
            return self.expiring[name].entries()
        return self.tables[name].entries()  # type: ignore[no-any-return]
