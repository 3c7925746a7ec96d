"""The changes of an active segment as backends keep them by key, and the rows they stand for.

====== ===========================================================================
kind   a change
====== ===========================================================================
value  the new value, or ``DELETED``
list   a pair: whether it replaces, and the elements; or ``DELETED``
map    a pair: whether it cleared first, and the entries after that, each a value or ``DELETED``
====== ===========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.values import ValueType

Changes = dict[Any, Any]
Rows = Sequence[tuple[Any, ...]]
DELETED = object()


def append_to(changes: Changes, key: Any, kept: list[Any]) -> None:
    """Note that elements were appended to a key's list."""
    change = changes.get(key)
    if change is None:
        changes[key] = (False, list(kept))
    elif change is DELETED:
        changes[key] = (True, list(kept))
    else:
        change[1].extend(kept)


def entries_of(changes: Changes, key: Any) -> dict[Any, Any]:
    """The changed entries of a key's map, to be changed further."""
    change = changes.get(key)
    if change is None:
        change = changes[key] = (False, {})
    entries: dict[Any, Any] = change[1]
    return entries


def list_operations(changes: Changes) -> Iterator[tuple[Any, ...]]:
    for key, change in changes.items():
        if change is DELETED:
            yield key, DELETE, None
        else:
            yield key, (PUT if change[0] else APPEND), change[1]


def list_columns(rows: Rows, key: ValueType, value: ValueType) -> list[pa.Array]:
    keys, ops, lists = zip(*rows, strict=True)
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([0 if items is None else len(items) for items in lists], out=offsets[1:])
    flat = value.to_array([item for items in lists if items for item in items])
    values = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return [key.to_array(keys), pa.array(ops, pa.int8()), values]


def map_operations(changes: Changes) -> Iterator[tuple[Any, ...]]:
    for key, (cleared, entries) in changes.items():
        if cleared:
            yield key, DELETE, None, None
        for map_key, kept in entries.items():
            if kept is DELETED:
                yield key, ENTRY_REMOVE, map_key, None
            else:
                yield key, ENTRY_PUT, map_key, kept


def map_columns(rows: Rows, key: ValueType, map_key: ValueType, value: ValueType) -> list[pa.Array]:
    keys, ops, map_keys, kept = zip(*rows, strict=True)
    return [
        key.to_array(keys),
        pa.array(ops, pa.int8()),
        map_key.to_array(map_keys),
        value.to_array(kept),
    ]
