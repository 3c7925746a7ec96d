"""The tables of the heap backend: a dictionary for reading, and the active segment beside it.

What is kept is immutable (see ``values``), so a frozen segment may share it with the live view;
lists and maps, which the live view changes in place, are never shared.

This is a hot file (benchmarks/state_access.py, benchmarks/snapshot_cost.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.schema.sizes import TooLargeError
from mainstay.state.backends.changes import (
    DELETED,
    SLICE_BYTES,
    Changes,
    append_to,
    entries_of,
    in_slices,
    list_columns,
    list_operations,
    map_columns,
    map_operations,
)
from mainstay.state.backends.heap.access import SHARDS, heap_access
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import ABSENT, Access, KeyContext
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, PUT
from mainstay.state.values import ValueType

SHARD_ABOVE = 1 << 17
SLICE_ROWS = 2048
"""Rows converted between two chances for the loop to do something else."""
FEWEST_ROWS = 64
"""Rows of a slice from which on they are worth columns of their own."""
FREED_AT_ONCE = 1 << 14
"""Rows of a segment that are freed between two chances for the loop to do something else."""
MOST_COLUMN_ROWS = 1 << 20
"""Rows of an active segment that may be kept as columns."""
MOST_COLUMN_BYTES = 1 << 27
"""And their bytes: columns hold every version that was written, changes by key only the last."""

Parts = list[Any]
_NONE = type(None)


class HeapTable:
    """What the kinds share: the live view and the active segment, whole or in shards.

    A dictionary that grows past some size holds everything up while it is rebuilt. So once there
    are ``SHARD_ABOVE`` keys, both views go on as ``SHARDS`` dictionaries, chosen by the key's hash,
    and stay so: a table of any size grows in small steps.
    """

    def __init__(self, info: StateInfo, key: ValueType) -> None:
        self.info = info
        self.key = key
        self.live: dict[Any, Any] = {}
        self.changes: Changes = {}
        self.live_shards: list[dict[Any, Any]] | None = None
        self.shards: list[Changes] = []

    def home_of(self, key: Any) -> dict[Any, Any]:
        """Where the live value of this key is."""
        return self.live if self.live_shards is None else self.live_shards[hash(key) % SHARDS]

    def part_of(self, key: Any) -> Changes:
        """Where a change of this key goes."""
        return self.changes if self.live_shards is None else self.shards[hash(key) % SHARDS]

    def read(self, key: Any) -> Any:
        return self.home_of(key).get(key)

    def peek(self, key: Any) -> Any:
        """What is kept for a key, without a trace of the look."""
        return self.read(key)

    def bring(self, keys: Sequence[Any]) -> None:
        """Many keys are about to be read: all are here."""

    def relieve(self) -> None:
        """Go on in shards once there are many keys. Called between slices."""
        if self.live_shards is None and max(len(self.live), len(self.changes)) > SHARD_ABOVE:
            self.live_shards = _sharded(self.live)
            self.shards = _sharded(self.changes)
            # Cleared, not replaced: functions made for this table hold on to it.
            self.live.clear()
            self.changes = {}

    def freeze(self) -> Parts:
        """Hand the active segment out and open an empty one."""
        parts = [part for part in (self.changes, *self.shards) if part]
        self.changes = {}
        if self.live_shards is not None:
            self.shards = _empty_shards()
        return parts

    def live_parts(self) -> list[dict[Any, Any]]:
        return [self.live] if self.live_shards is None else self.live_shards

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        everything = [
            {key: self.whole(kept) for key, kept in part.items()} for part in self.live_parts()
        ]
        if self.live_shards is None:
            (self.changes,) = everything
        else:
            self.shards = everything

    def whole(self, kept: Any) -> Any:
        """The change that stands for all that is kept for a key."""
        raise NotImplementedError

    def leftovers(self, parts: Parts) -> Parts:
        """The parts that take time to free."""
        return parts

    def repeats_keys(self, parts: Parts) -> bool:
        """Whether a frozen segment may hold many rows that later ones make useless."""
        return False

    def encode(self, parts: Parts) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        operations = chain.from_iterable(self.operations(part) for part in parts)
        return in_slices(operations, SLICE_ROWS, self.columns, self.info, self.key)

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        """The rows that a part of a segment stands for."""
        raise NotImplementedError

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        raise NotImplementedError

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        keys = self.key.from_array(rows.column("key"))
        self.apply_rows(keys, rows.column("op").to_pylist(), rows)

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        raise NotImplementedError

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(part.items() for part in self.live_parts())

    def survey(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, while others change it between two steps.

        What was there at the beginning and still is comes once at least, as it is then or as it
        was; what is new may come or not. No step takes long.
        """
        for part in self.live_parts():
            for key in list(part):
                kept = self.read(key)
                if kept is not None:
                    yield key, kept


class HeapValues(HeapTable):
    """One kept value per key. A change is the new value, or the mark of a deletion.

    A random access to a large dictionary waits for memory, and one per write is enough. So a write
    goes to the live view and, at the end of the line, into a log; when a slice of rows is over,
    what was logged becomes columns, which is what it will be written as. Columns hold a key as
    often as it was written: past some size, and where a value is dear to convert, changes are
    gathered in dictionaries instead.
    """

    def __init__(self, info: StateInfo, key: ValueType) -> None:
        super().__init__(info, key)
        self._is_flat = not (pa.types.is_nested(info.value.arrow) or pa.types.is_nested(key.arrow))
        self.logged_keys: list[Any] = []
        self.logged: list[Any] = []
        self._closed: Parts = []
        self._column_rows = 0
        self._column_bytes = 0
        self._row_bytes = 0
        self._has_deletions = False

    def access(self, context: KeyContext) -> Access:
        return heap_access(self, context)

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

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        values = self.info.value.from_array(rows.column("value"))
        if self.live_shards is None and DELETE not in ops:
            self.live.update(zip(keys, values, strict=True))
            return
        for key, op, kept in zip(keys, ops, values, strict=True):
            if op == PUT:
                self.home_of(key)[key] = kept
            else:
                self.home_of(key).pop(key, None)

    def whole(self, kept: Any) -> Any:
        return kept


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


class HeapLists(HeapTable):
    """A list per key."""

    def put(self, key: Any, kept: list[Any]) -> None:
        self.home_of(key)[key] = list(kept)
        self.part_of(key)[key] = (True, list(kept))

    def append(self, key: Any, kept: list[Any]) -> None:
        self.home_of(key).setdefault(key, []).extend(kept)
        append_to(self.part_of(key), key, kept)

    def delete(self, key: Any) -> None:
        if self.home_of(key).pop(key, None) is not None:
            self.part_of(key)[key] = DELETED
        else:
            hash(key)  # as above

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        return list_operations(changes)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        return list_columns(rows, self.key, self.info.value)

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        column = rows.column("value").combine_chunks()  # a slice of what fits into one array
        flat = self.info.value.from_array(column.flatten())
        position = 0
        for key, op, length in zip(keys, ops, column.value_lengths().to_pylist(), strict=True):
            items = flat[position : position + length]
            position += length
            home = self.home_of(key)
            if op == APPEND:
                home.setdefault(key, []).extend(items)
            elif op == PUT:
                home[key] = items
            else:
                home.pop(key, None)

    def whole(self, kept: Any) -> Any:
        return True, list(kept)


class HeapMaps(HeapTable):
    """A map per key."""

    def __init__(self, info: StateInfo, key: ValueType) -> None:
        super().__init__(info, key)
        assert info.map_key is not None
        self.map_key = info.map_key

    def entry(self, key: Any, map_key: Any) -> Any:
        entries = self.read(key)
        return ABSENT if entries is None else entries.get(map_key, ABSENT)

    def has_entry(self, key: Any, map_key: Any) -> bool:
        return self.entry(key, map_key) is not ABSENT

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self.home_of(key).setdefault(key, {})[map_key] = kept
        entries_of(self.part_of(key), key)[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        home = self.home_of(key)
        entries = home.get(key)
        if entries is None or map_key not in entries:
            return
        del entries[map_key]
        if not entries:
            del home[key]
        entries_of(self.part_of(key), key)[map_key] = DELETED

    def delete(self, key: Any) -> None:
        if self.home_of(key).pop(key, None) is not None:
            self.part_of(key)[key] = (True, {})
        else:
            hash(key)  # as above

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        return map_operations(changes)

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        return map_columns(rows, self.key, self.map_key, self.info.value)

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        map_keys = self.map_key.from_array(rows.column("map_key"))
        values = self.info.value.from_array(rows.column("value"))
        for key, op, map_key, kept in zip(keys, ops, map_keys, values, strict=True):
            if op == ENTRY_PUT:
                self.home_of(key).setdefault(key, {})[map_key] = kept
            elif op == DELETE:
                self.home_of(key).pop(key, None)
            else:
                self._remove_applied(key, map_key)

    def _remove_applied(self, key: Any, map_key: Any) -> None:
        home = self.home_of(key)
        entries = home.get(key, {})
        entries.pop(map_key, None)
        if not entries:
            home.pop(key, None)

    def whole(self, kept: Any) -> Any:
        return False, dict(kept)


def _empty_shards() -> list[dict[Any, Any]]:
    return [{} for _ in range(SHARDS)]


def _sharded(whole: dict[Any, Any]) -> list[dict[Any, Any]]:
    shards = _empty_shards()
    for key, kept in whole.items():
        shards[hash(key) % SHARDS][key] = kept
    return shards


TABLES: dict[str, Callable[[StateInfo, ValueType], Any]] = {
    "value": HeapValues,
    "reducing": HeapValues,
    "aggregating": HeapValues,
    "list": HeapLists,
    "map": HeapMaps,
    "columns": HeapColumns,
}
