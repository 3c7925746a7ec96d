"""The functions behind the handles of value states whose rows are cached.

A cached row is found by one look into a dictionary, and these functions add as little to it as a
function can.

This is a hot file (benchmarks/rocksdb_state.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstay.state.backends.compiled import compiled_access
from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, AnyContext

if TYPE_CHECKING:
    from mainstay.state.backends.cached.tables import CachedValues

_SOURCE = """
def get():
    return live[context.current_key]

def get_thawed():
    kept = live[context.current_key]
    return kept if kept is None else thaw(kept)

def update(value):
    key = context.current_key
    if value is None:
        return delete(key)
    if not (FITS):
        value = checked(value)
    live[key] = value
    table.changes[key] = value

def add(value):
    if not (FITS):
        value = checked(value)
    key = context.current_key
    current = live[key]
    if current is not None:
        value = function(current, value)
        if not (FITS):
            value = reduced(value)
    live[key] = value
    table.changes[key] = value

def add_thawed(value):
    value = checked(value)
    key = context.current_key
    current = live[key]
    if current is not None:
        value = reduced(function(thaw(current), thaw(value)))
    live[key] = value
    table.changes[key] = value
"""


def cached_access(table: CachedValues, context: AnyContext, info: StateInfo) -> Access:
    """How a handle reads and writes a table of the RocksDB backend."""
    return compiled_access(
        _SOURCE,
        info,
        context=context,
        table=table,
        live=table.live,
        delete=table.delete,
    )
