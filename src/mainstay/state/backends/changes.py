"""The changes of an active segment as backends keep them by key, and the rows they stand for.

====== ===========================================================================
stored a change
====== ===========================================================================
value  the new value, or ``DELETED``
list   a pair: whether it replaces, and the elements; or ``DELETED``
map    a pair: whether it cleared first, and the entries after that, each a value or ``DELETED``
====== ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema.sizes import halved, is_sized
from mainstay.schema.transpose import shown
from mainstay.state.info import StateInfo
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

Changes = dict[Any, Any]
Rows = Sequence[tuple[Any, ...]]
DELETED = object()
FIRST_ROWS = 256
"""Rows of a slice while it is unknown how many bytes they take."""
SLICE_BYTES = 8 << 20
"""Bytes of a slice, about: between two slices the loop may do something else."""


def in_slices(
    rows: Iterable[tuple[Any, ...]],
    most_rows: int,
    make: Callable[[Rows], list[pa.Array]],
    info: StateInfo,
    key: ValueType,
) -> Iterator[list[pa.Array]]:
    """The columns of rows, whose first item is the key, by slices of a number of rows or bytes."""
    taking = iter(rows)
    varies = is_sized(info.value.arrow) or is_sized(key.arrow) or info.map_key is not None
    count = min(FIRST_ROWS, most_rows) if varies else most_rows
    while some := list(islice(taking, count)):
        size = 0
        for columns in halved(some, make, lambda row: _parts_of(row, info)):
            size += sum(column.nbytes for column in columns)
            yield columns
        if varies:
            count = max(1, min(most_rows, SLICE_BYTES * len(some) // max(1, size)))


def _parts_of(row: tuple[Any, ...], info: StateInfo) -> Sequence[tuple[Any, ...]]:
    """A list that is too large as one that is put and one that is appended; nothing else can be
    divided."""
    key, *rest = row
    if info.kind.stored_as == "list" and rest[1] is not None and len(rest[1]) > 1:
        op, items = rest
        middle = len(items) // 2
        return [(key, op, items[:middle]), (key, APPEND, items[middle:])]
    raise StateTypeError(
        f"state {info.name!r}: a value of key {shown(key)} takes more than 2 GiB, which is the "
        "most that can be stored. Divide it over several keys, or over the entries of a MapState."
    )


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


# ------------------------------------------------------------ any kind of state


def value_operations(changes: Changes) -> Iterator[tuple[Any, ...]]:
    for key, kept in changes.items():
        yield (key, DELETE, None) if kept is DELETED else (key, PUT, kept)


def value_columns(rows: Rows, key: ValueType, value: ValueType) -> list[pa.Array]:
    keys, ops, kept = zip(*rows, strict=True)
    return [key.to_array(keys), pa.array(ops, pa.int8()), value.to_array(kept)]


def encoded(
    parts: Iterable[Changes], most_rows: int, info: StateInfo, key: ValueType
) -> Iterator[list[pa.Array]]:
    """The columns of changes of a state, whatever its kind, a slice at a time."""
    operations = {"value": value_operations, "list": list_operations, "map": map_operations}
    of_kind = operations[info.kind.stored_as]

    def columns(rows: Rows) -> list[pa.Array]:
        if info.map_key is not None:
            return map_columns(rows, key, info.map_key, info.value)
        make = list_columns if info.kind.stored_as == "list" else value_columns
        return make(rows, key, info.value)

    rows = (row for part in parts for row in of_kind(part))
    return in_slices(rows, most_rows, columns, info, key)


def decoded(rows: pa.Table, info: StateInfo, stored: StoredKey) -> Iterator[tuple[Any, ...]]:
    """Stored rows of a state as operations: a key, what is done, a map key or None, the value."""
    count = rows.num_rows
    map_keys = [None] * count
    if info.map_key is not None:
        map_keys = info.map_key.from_array(rows.column("map_key"))
    values = rows.column("value")
    if info.kind.stored_as == "list":
        items = (each for chunk in values.chunks for each in chunk)
        kept = [info.value.from_array(each.values) if each.is_valid else [] for each in items]
    else:
        kept = info.value.from_array(values)
    ops = rows.column("op").to_pylist()
    return zip(stored.kept(rows), ops, map_keys, kept, strict=True)


def after(kept: Any, info: StateInfo, op: int, map_key: Any, value: Any) -> Any:
    """What is kept for a key after an operation; None, or nothing in it, where nothing is."""
    if op == PUT:
        return value
    if op == APPEND and info.kind.stored_as == "value":
        return value if kept is None else after_row(kept, value, info)
    if op == APPEND:
        return [*(kept or ()), *value]
    if op == ENTRY_PUT:
        return {**(kept or {}), map_key: value}
    if op == ENTRY_REMOVE:
        entries = dict(kept or {})
        entries.pop(map_key, None)
        return entries
    return None


def after_row(kept: Any, row: Any, info: StateInfo) -> Any:
    """A row of accumulators after another one was appended to it."""
    fields = zip(info.value.arrow, kept, row, strict=True)
    return type(row)(
        (*(old or ()), *(new or ())) if pa.types.is_list(field.type) else new
        for field, old, new in fields
    )
