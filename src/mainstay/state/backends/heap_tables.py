"""The tables of the heap backend: a dictionary for reading, and the active segment beside it.

What is kept is immutable (see ``values``), so a frozen segment may share it with the live view;
lists and maps, which the live view changes in place, are never shared.

This is a hot file (benchmarks/state_access.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.declaration import StateInfo
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.values import ValueType

SHARD_ABOVE = 1 << 16
SHARDS = 256

Changes = dict[Any, Any]
Parts = list[Changes]
_DELETED = object()


class HeapTable:
    """What the three kinds share: the live view, and the active segment in one or many parts.

    A dictionary that grows past some size holds everything up while it is rebuilt. So once the
    segment has ``SHARD_ABOVE`` keys it goes on in many small parts, chosen by the key's hash; the
    first part stays as it is, and rows of it are simply older than those of the others.
    """

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self.live: dict[Any, Any] = {}
        self.read = self.live.get
        self.changes: Changes = {}
        self._shards: list[Changes] = []

    def part_of(self, key: Any) -> Changes:
        """Where a change of this key goes."""
        return self._shards[hash(key) % SHARDS] if self._shards else self.changes

    def relieve(self) -> None:
        """Go on in small parts if the first one has grown large. Called between slices."""
        if len(self.changes) > SHARD_ABOVE and not self._shards:
            self._shards = [{} for _ in range(SHARDS)]

    def freeze(self) -> Parts:
        """Hand the active segment out, oldest part first, and open an empty one."""
        parts = [part for part in (self.changes, *self._shards) if part]
        self.changes, self._shards = {}, []
        return parts

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.live.items())


class HeapValues(HeapTable):
    """One kept value per key. A change is the new value, or the mark of a deletion."""

    def put(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self.changes[key] = kept

    def _put_sharded(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self._shards[hash(key) % SHARDS][key] = kept

    def relieve(self) -> None:
        super().relieve()
        if self._shards:
            # The short way stays free of a question that is almost always answered no.
            self.__dict__["put"] = self._put_sharded

    def freeze(self) -> Parts:
        self.__dict__.pop("put", None)
        return super().freeze()

    def delete(self, key: Any) -> None:
        if self.live.pop(key, None) is not None:
            self.part_of(key)[key] = _DELETED

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

    def mark_all_changed(self) -> None:
        self.changes = dict(self.live)


class HeapLists(HeapTable):
    """A list per key. A change is a pair: whether it replaces, and the elements."""

    def put(self, key: Any, kept: list[Any]) -> None:
        self.live[key] = list(kept)
        self.part_of(key)[key] = (True, list(kept))

    def append(self, key: Any, kept: list[Any]) -> None:
        self.live.setdefault(key, []).extend(kept)
        part = self.part_of(key)
        change = part.get(key)
        if change is None:
            part[key] = (False, list(kept))
        elif change is _DELETED:
            part[key] = (True, list(kept))
        else:
            change[1].extend(kept)

    def delete(self, key: Any) -> None:
        if self.live.pop(key, None) is not None:
            self.part_of(key)[key] = _DELETED

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

    def mark_all_changed(self) -> None:
        self.changes = {key: (True, list(items)) for key, items in self.live.items()}


class HeapMaps(HeapTable):
    """A map per key. A change is a pair: whether it cleared first, and the entries after that."""

    def __init__(self, info: StateInfo) -> None:
        super().__init__(info)
        assert info.map_key is not None
        self.map_key = info.map_key

    def _change(self, key: Any) -> dict[Any, Any]:
        part = self.part_of(key)
        change = part.get(key)
        if change is None:
            change = part[key] = (False, {})
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
            self.part_of(key)[key] = (True, {})

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

    def mark_all_changed(self) -> None:
        self.changes = {key: (False, dict(entries)) for key, entries in self.live.items()}


TABLES: dict[str, Callable[[StateInfo], Any]] = {
    "value": HeapValues,
    "list": HeapLists,
    "map": HeapMaps,
}
