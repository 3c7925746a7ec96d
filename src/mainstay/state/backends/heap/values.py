"""Values in the heap backend: written into the live view and into a log, which becomes columns.

This is a hot file (benchmarks/state_access.py, benchmarks/snapshot_cost.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.schema.sizes import TooLargeError
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.changes import DELETED, SLICE_BYTES, Changes, in_slices
from mainstay.state.backends.heap.access import SHARDS, heap_access
from mainstay.state.backends.heap.shards import in_shards
from mainstay.state.backends.heap.tables import SLICE_ROWS, HeapTable, Parts
from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, AnyContext
from mainstay.state.operations import DELETE, PUT, columns_of
from mainstay.state.stored_key import StoredKey

FEWEST_ROWS = 64
"""Rows of a slice from which on they are worth columns of their own."""
FREED_AT_ONCE = 1 << 14
"""Rows of a segment that are freed between two chances for the loop to do something else."""
MOST_COLUMN_ROWS = 1 << 20
"""Rows of an active segment that may be kept as columns."""
MOST_COLUMN_BYTES = 1 << 27
"""And their bytes: columns hold every version that was written, changes by key only the last."""

_PART_ROWS = 1 << 15
"""Rows of a part of a segment that was restored."""

_NONE = type(None)


class HeapValues(HeapTable):
    """One kept value per key. A change is the new value, or the mark of a deletion.

    A random access to a large dictionary waits for memory, and one per write is enough. So a write
    goes to the live view and, at the end of the line, into a log; when a slice of rows is over,
    what was logged becomes columns, which is what it will be written as. Columns hold a key as
    often as it was written: past some size, and where a value is dear to convert, changes are
    gathered in dictionaries instead.
    """

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        super().__init__(info, stored)
        self._is_flat = stored.is_flat and not pa.types.is_nested(info.value.arrow)
        self.logged_keys: list[Any] = []
        self.logged: list[Any] = []
        self._closed: Parts = []
        self._column_rows = 0
        self._column_bytes = 0
        self._row_bytes = 0
        self._has_deletions = False

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access:
        return heap_access(self, context, info or self.info)

    # ------------------------------------------------------------ reading and writing

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        shards = self.live_shards
        if shards is None:
            return list(map(self.live.get, keys, repeat(default)))
        return [shards[hash(key) % SHARDS].get(key, default) for key in keys]

    def put(self, key: Any, kept: Any) -> None:
        self.home_of(key)[key] = kept
        self.logged_keys.append(key)
        self.logged.append(kept)

    def delete(self, key: Any) -> None:
        if self.home_of(key).pop(key, None) is not None:
            self.logged_keys.append(key)
            self.logged.append(DELETED)
            self._has_deletions = True
        else:
            hash(key)  # an empty dictionary does not ask, and where there is no key this says so

    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None:
        """Store values by the batch; None deletes."""
        if _NONE in set(map(type, kept)):
            for key, value in zip(keys, kept, strict=True):
                self.delete(key) if value is None else self.put(key, value)
            return
        if self.live_shards is None:
            self.live.update(zip(keys, kept, strict=True))
        else:
            for key, value in zip(keys, kept, strict=True):
                self.live_shards[hash(key) % SHARDS][key] = value
        self.logged_keys += keys
        self.logged += kept

    # ------------------------------------------------------------ the active segment

    def relieve(self) -> None:
        super().relieve()
        self._close_log()

    def _close_log(self) -> None:
        """Put what was logged into the active segment."""
        keys, kept = self.logged_keys, self.logged
        if not keys:
            return
        columns = self._as_columns(keys, kept)
        if columns is not None:
            self._close_changes()
            self._closed.append(columns)
        elif self.live_shards is None:
            self.changes.update(zip(keys, kept, strict=True))
        else:
            for key, value in zip(keys, kept, strict=True):
                self.shards[hash(key) % SHARDS][key] = value
        # Cleared, not replaced: functions made for this table hold on to them.
        keys.clear()
        kept.clear()

    def _as_columns(self, keys: list[Any], kept: list[Any]) -> _Columns | None:
        """What was logged as columns; None where it is to be kept by key."""
        if not self._may_be_columns(len(keys)):
            return None
        try:
            columns = _Columns(self.key.to_array(keys), self.info.value.to_array(kept))
        except (TooLargeError, pa.ArrowCapacityError):
            return None
        size = columns.keys.nbytes + columns.values.nbytes
        self._row_bytes = size // len(keys)
        self._column_rows += len(keys)
        self._column_bytes += size
        return columns

    def _may_be_columns(self, rows: int) -> bool:
        is_small = (
            self._column_rows + rows <= MOST_COLUMN_ROWS
            and self._column_bytes + rows * self._row_bytes <= MOST_COLUMN_BYTES
        )
        return self._is_flat and is_small and rows >= FEWEST_ROWS and not self._has_deletions

    # ------------------------------------------------------------ snapshots

    def _close_changes(self) -> None:
        """What comes next goes into parts of its own, which are newer."""
        for part in super().freeze():
            self._closed.append(_Values(part, self._has_deletions))
            # It may hold what is overwritten later, just as columns do.
            self._column_rows += len(part)
            self._column_bytes += len(part) * self._row_bytes
        self._has_deletions = False

    def freeze(self) -> Parts:
        self._close_log()
        self._close_changes()
        parts, self._closed = self._closed, []
        self._column_rows = self._column_bytes = 0
        return parts

    def leftovers(self, parts: Parts) -> Parts:
        return _bundled([part for part in parts if isinstance(part, _Values)], FREED_AT_ONCE)

    def repeats_keys(self, parts: Parts) -> bool:
        return any(isinstance(part, _Columns) for part in parts)

    def encode(self, parts: Parts) -> Iterator[list[pa.Array]]:
        rows = 4 * SLICE_ROWS if self._is_flat else SLICE_ROWS
        for is_columns, run in groupby(parts, lambda part: isinstance(part, _Columns)):
            if is_columns:
                yield from self._encode_columns(run, 4 * rows)
            else:
                yield from self._encode_changes(list(run), rows)

    def _encode_columns(self, parts: Iterable[_Columns], rows: int) -> Iterator[list[pa.Array]]:
        gathered: list[_Columns] = []
        size = 0
        for part in parts:
            gathered.append(part)
            size += part.keys.nbytes + part.values.nbytes
            if sum(len(each.keys) for each in gathered) >= rows or size >= SLICE_BYTES:
                yield _joined(gathered)
                gathered, size = [], 0
        if gathered:
            yield _joined(gathered)

    def _encode_changes(self, parts: list[_Values], rows: int) -> Iterator[list[pa.Array]]:
        changes = chain.from_iterable(part.changes.items() for part in parts)
        may_delete = any(part.may_delete for part in parts)

        def columns(some: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
            keys, kept = zip(*some, strict=True)
            ops = np.full(len(keys), PUT, np.int8)
            if may_delete:
                ops[[value is DELETED for value in kept]] = DELETE
                kept = tuple(None if value is DELETED else value for value in kept)
            return [self.key.to_array(keys), pa.array(ops), self.info.value.to_array(kept)]

        return in_slices(changes, rows, columns, self.info, self.key)

    # ------------------------------------------------------------ restore

    def apply(self, rows: pa.Table) -> None:
        if bool(np.any(rows.column("op").to_numpy() != PUT)):
            super().apply(rows)
            return
        # Before there are so many: to divide a large dictionary costs as much as to fill it.
        self.relieve()
        for batch in rows.to_batches():
            part = pa.Table.from_batches([batch])
            self._put_stored(self.stored.column(part), batch.column("value"))

    def _put_stored(self, keys: pa.Array, values: pa.Array) -> None:
        """Keep stored values: many of them into one dictionary after the other."""
        value = self.info.value
        if self.live_shards is None:
            self.live.update(zip(self.key.from_array(keys), value.from_array(values), strict=True))
            return
        divided = in_shards(self.key, keys)
        kept = value.from_array(values.take(divided.order))
        for shard, first, after in divided.runs():
            some = zip(divided.keys[first:after], kept[first:after], strict=True)
            self.live_shards[shard].update(some)

    def changed_as(self, applied: Sequence[StateTable]) -> bool:
        """Make the next segment stand for everything, by the columns that all of it was just
        applied from; False where these say more than what is there."""
        types = columns_of(self.info, self.stored.key).types
        if any(each.drops or not _are_puts(each.table, types) for each in applied):
            return False
        self._closed = [part for each in applied for part in self._stored_parts(each.table)]
        return True

    def _stored_parts(self, rows: pa.Table) -> Iterator[_Columns]:
        most = max(1, min(_PART_ROWS, SLICE_BYTES * rows.num_rows // max(1, rows.nbytes)))
        for batch in rows.to_batches(max_chunksize=most):
            keys = self.stored.column(pa.Table.from_batches([batch]))
            yield _Columns(keys, batch.column("value"))

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        values = self.info.value.from_array(rows.column("value"))
        for key, op, kept in zip(keys, ops, values, strict=True):
            if op == PUT:
                self.home_of(key)[key] = kept
            else:
                self.home_of(key).pop(key, None)

    def whole(self, kept: Any) -> Any:
        return kept


def _are_puts(rows: pa.Table, types: list[pa.DataType]) -> bool:
    """Whether rows of these types put values, and do nothing else."""
    return rows.schema.types == types and bool(np.all(rows.column("op").to_numpy() == PUT))


class _Values:
    """A closed part of a segment of values, and whether it may hold deletions."""

    __slots__ = ("changes", "may_delete")

    def __init__(self, changes: Changes, may_delete: bool) -> None:
        self.changes = changes
        self.may_delete = may_delete


class _Columns:
    """A closed part of a segment of values as columns; a key may come again in later ones."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: pa.Array, values: pa.Array) -> None:
        self.keys = keys
        self.values = values


def _bundled(parts: list[_Values], rows: int) -> list[list[_Values]]:
    """The parts in bundles of about ``rows`` rows."""
    bundles: list[list[_Values]] = []
    room = 0
    for part in parts:
        if room <= 0:
            bundles.append([])
            room = rows
        bundles[-1].append(part)
        room -= len(part.changes)
    return bundles


def _joined(parts: Sequence[_Columns]) -> list[pa.Array]:
    keys = pa.concat_arrays([part.keys for part in parts])
    values = pa.concat_arrays([part.values for part in parts])
    return [keys, pa.array(np.full(len(keys), PUT, np.int8)), values]
