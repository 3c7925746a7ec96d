"""The functions behind the handles of value states in RocksDB, made for one state and its key.

A row at hand is found by one look into a dictionary; these functions add as little to it as a
function can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstay.state.keyed import Access, KeyContext, checking, no_none, no_reduction

if TYPE_CHECKING:
    from mainstay.state.backends.rocksdb_tables import RocksValues


def rocks_access(table: RocksValues, context: KeyContext) -> Access:
    """How a handle reads and writes a table of the RocksDB backend."""
    info, live, delete = table.info, table.live, table.delete
    thaw, function = info.value.thaw, info.function
    checked = checking(info, no_none)
    reduced = checking(info, no_reduction)

    def store(kept: Any) -> None:
        key = context.key
        live[key] = kept
        table.changes[key] = kept

    def get() -> Any:
        return live[context.key]

    def get_thawed() -> Any:
        kept = live[context.key]
        return kept if kept is None or thaw is None else thaw(kept)

    def update(value: Any) -> None:
        if value is None:
            delete(context.key)
        else:
            store(checked(value))

    def add(value: Any) -> None:
        kept = checked(value)
        current = get_thawed()
        if current is not None:
            kept = reduced(function(current, kept if thaw is None else thaw(kept)))
        store(kept)

    return Access(get if thaw is None else get_thawed, update, add)
