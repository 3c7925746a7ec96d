"""Lists and maps in the heap backend. The live view changes them in place, so none is shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from mainstay.state.backends.changes import (
    DELETED,
    Changes,
    append_to,
    entries_of,
    list_columns,
    list_operations,
    map_columns,
    map_operations,
)
from mainstay.state.backends.heap.tables import HeapTable
from mainstay.state.info import StateInfo
from mainstay.state.keyed import ABSENT
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, PUT
from mainstay.state.stored_key import StoredKey


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
            hash(key)  # where there is no key this says so

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

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        super().__init__(info, stored)
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
            hash(key)  # where there is no key this says so

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
