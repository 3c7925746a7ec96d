"""The heap backend: a dictionary per state for reading, and the active segment beside it.

A write changes both. Freezing hands the active segment out and opens an empty one, which costs
the same whatever the size of the state; reads never look at segments. What is kept is immutable
(see ``values``), so a frozen segment may share it with the live view; lists and maps, which the
live view changes in place, are never shared.

This is a hot file (benchmarks/state_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.declaration import StateInfo
from mainstay.state.hashing import key_groups
from mainstay.state.keyed import HANDLES, KeyContext
from mainstay.state.operations import (
    APPEND,
    DELETE,
    ENTRY_PUT,
    ENTRY_REMOVE,
    PUT,
    STORED_AS,
    columns_of,
)
from mainstay.state.values import ValueType

SLICE_ROWS = 2048
"""Rows converted between two chances for the loop to do something else."""

Changes = dict[Any, Any]
Frozen = dict[str, Changes]
_DELETED = object()


class HeapValues:
    """One kept value per key. A change is the new value, or the mark of a deletion."""

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self.live: dict[Any, Any] = {}
        self.changes: Changes = {}
        self.read = self.live.get

    def put(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self.changes[key] = kept

    def delete(self, key: Any) -> None:
        if self.live.pop(key, None) is not None:
            self.changes[key] = _DELETED

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        for key, kept in changes.items():
            yield (key, DELETE, None) if kept is _DELETED else (key, PUT, kept)

    def columns(self, rows: Sequence[tuple[Any, ...]], key: ValueType) -> list[pa.Array]:
        keys, ops, kept = zip(*rows, strict=True)
        return [key.to_array(keys), pa.array(ops, pa.int8()), self.info.value.to_array(kept)]

    def apply(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        values = self.info.value.from_array(rows.column("value"))
        live = self.live
        for key, op, kept in zip(keys, ops, values, strict=True):
            if op == PUT:
                live[key] = kept
            else:
                live.pop(key, None)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.live.items())

    def mark_all_changed(self) -> None:
        self.changes = dict(self.live)


class HeapLists:
    """A list per key. A change is a pair: whether it replaces, and the elements."""

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self.live: dict[Any, list[Any]] = {}
        self.changes: Changes = {}
        self.read = self.live.get

    def put(self, key: Any, kept: list[Any]) -> None:
        self.live[key] = list(kept)
        self.changes[key] = (True, list(kept))

    def append(self, key: Any, kept: list[Any]) -> None:
        self.live.setdefault(key, []).extend(kept)
        change = self.changes.get(key)
        if change is None:
            self.changes[key] = (False, list(kept))
        elif change is _DELETED:
            self.changes[key] = (True, list(kept))
        else:
            change[1].extend(kept)

    def delete(self, key: Any) -> None:
        if self.live.pop(key, None) is not None:
            self.changes[key] = _DELETED

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        for key, change in changes.items():
            if change is _DELETED:
                yield key, DELETE, None
            else:
                yield key, (PUT if change[0] else APPEND), change[1]

    def columns(self, rows: Sequence[tuple[Any, ...]], key: ValueType) -> list[pa.Array]:
        keys, ops, lists = zip(*rows, strict=True)
        return [key.to_array(keys), pa.array(ops, pa.int8()), self._lists_array(lists)]

    def _lists_array(self, lists: Sequence[list[Any] | None]) -> pa.Array:
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([0 if items is None else len(items) for items in lists], out=offsets[1:])
        flat = self.info.value.to_array([item for items in lists if items for item in items])
        return pa.ListArray.from_arrays(pa.array(offsets), flat)

    def apply(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        column = rows.column("value").combine_chunks()
        flat = self.info.value.from_array(column.flatten())
        position = 0
        for key, op, length in zip(keys, ops, column.value_lengths().to_pylist(), strict=True):
            items = flat[position : position + length]
            position += length
            if op == APPEND:
                self.live.setdefault(key, []).extend(items)
            elif op == PUT:
                self.live[key] = items
            else:
                self.live.pop(key, None)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.live.items())

    def mark_all_changed(self) -> None:
        self.changes = {key: (True, list(items)) for key, items in self.live.items()}


class HeapMaps:
    """A map per key. A change is a pair: whether it cleared first, and the entries after that."""

    def __init__(self, info: StateInfo) -> None:
        assert info.map_key is not None
        self.info = info
        self.map_key = info.map_key
        self.live: dict[Any, dict[Any, Any]] = {}
        self.changes: Changes = {}
        self.read = self.live.get

    def _change(self, key: Any) -> dict[Any, Any]:
        change = self.changes.get(key)
        if change is None:
            change = self.changes[key] = (False, {})
        entries: dict[Any, Any] = change[1]
        return entries

    def put_entry(self, key: Any, map_key: Any, kept: Any) -> None:
        self.live.setdefault(key, {})[map_key] = kept
        self._change(key)[map_key] = kept

    def remove_entry(self, key: Any, map_key: Any) -> None:
        entries = self.live.get(key)
        if entries is None or map_key not in entries:
            return
        del entries[map_key]
        if not entries:
            del self.live[key]
        self._change(key)[map_key] = _DELETED

    def delete(self, key: Any) -> None:
        if self.live.pop(key, None) is not None:
            self.changes[key] = (True, {})

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        for key, (cleared, entries) in changes.items():
            if cleared:
                yield key, DELETE, None, None
            for map_key, kept in entries.items():
                if kept is _DELETED:
                    yield key, ENTRY_REMOVE, map_key, None
                else:
                    yield key, ENTRY_PUT, map_key, kept

    def columns(self, rows: Sequence[tuple[Any, ...]], key: ValueType) -> list[pa.Array]:
        keys, ops, map_keys, kept = zip(*rows, strict=True)
        return [
            key.to_array(keys),
            pa.array(ops, pa.int8()),
            self.map_key.to_array(map_keys),
            self.info.value.to_array(kept),
        ]

    def apply(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        map_keys = self.map_key.from_array(rows.column("map_key"))
        values = self.info.value.from_array(rows.column("value"))
        for key, op, map_key, kept in zip(keys, ops, map_keys, values, strict=True):
            if op == ENTRY_PUT:
                self.live.setdefault(key, {})[map_key] = kept
            elif op == DELETE:
                self.live.pop(key, None)
            else:
                self._remove_applied(key, map_key)

    def _remove_applied(self, key: Any, map_key: Any) -> None:
        entries = self.live.get(key, {})
        entries.pop(map_key, None)
        if not entries:
            self.live.pop(key, None)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.live.items())

    def mark_all_changed(self) -> None:
        self.changes = {key: (False, dict(entries)) for key, entries in self.live.items()}


_TABLES: dict[str, Callable[[StateInfo], Any]] = {
    "value": HeapValues,
    "list": HeapLists,
    "map": HeapMaps,
}


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
        self.tables = {info.name: _TABLES[STORED_AS[info.kind]](info) for info in infos}
        self.handles = {
            info.name: HANDLES[info.kind](info, self.tables[info.name], context) for info in infos
        }

    def freeze(self) -> Frozen:
        """Take the active segment away and open an empty one: the logical snapshot, O(states)."""
        frozen: Frozen = {}
        for name, table in self.tables.items():
            if table.changes:
                frozen[name] = table.changes
                table.changes = {}
        return frozen

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        """Turn a frozen segment into columns, a slice at a time.

        Yields an empty list after every slice, and the tables last: whoever drives it decides
        what else runs in between.
        """
        done: list[StateTable] = []
        for name, changes in frozen.items():
            table = self.tables[name]
            schema = columns_of(table.info, self.key)
            operations = table.operations(changes)
            batches, groups = [], []
            while rows := list(islice(operations, SLICE_ROWS)):
                columns = table.columns(rows, self.key)
                batches.append(pa.record_batch(columns, schema=schema))
                groups.append(key_groups([columns[0]], self.max_parallelism))
                yield []
            done.append(
                StateTable(name, pa.Table.from_batches(batches, schema), np.concatenate(groups))
            )
        yield done

    def apply(self, rows: StateTable) -> Iterator[None]:
        """Apply stored rows in order, a slice at a time, without making them changes again."""
        table = self.tables[rows.name]
        for start in range(0, rows.table.num_rows, SLICE_ROWS):
            part = rows.table.slice(start, SLICE_ROWS)
            keys = self.key.from_array(part.column("key"))
            table.apply(keys, part.column("op").to_pylist(), part)
            yield

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything, so that it depends on no older file."""
        for table in self.tables.values():
            table.mark_all_changed()

    def entries(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, in no particular order."""
        return self.tables[name].entries()  # type: ignore[no-any-return]
