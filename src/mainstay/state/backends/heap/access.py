"""The functions behind the handles of value states of the heap backend.

This is a hot file (benchmarks/state_access.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstay.state.backends.compiled import compiled_access
from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, AnyContext

if TYPE_CHECKING:
    from mainstay.state.backends.heap.values import HeapValues

SHARDS = 256
"""Into how many dictionaries a large table is divided, by the hash of the key."""

_SOURCE = """
def get():
    key = context.current_key
    shards = table.live_shards
    return live_get(key) if shards is None else shards[hash(key) % SHARDS].get(key)

def get_thawed():
    kept = get()
    return kept if kept is None else thaw(kept)

def update(value):
    if value is None:
        return delete(context.current_key)
    if not (FITS):
        value = checked(value)
    STORE

def add(value):
    if not (FITS):
        value = checked(value)
    current = get()
    if current is not None:
        value = function(current, value)
        if not (FITS):
            value = reduced(value)
    STORE

def add_thawed(value):
    value = checked(value)
    current = get()
    if current is not None:
        value = reduced(function(thaw(current), thaw(value)))
    STORE
"""

_STORE = """
    key = context.current_key
    shards = table.live_shards
    if shards is None:
        live[key] = value
    else:
        shards[hash(key) % SHARDS][key] = value
    log_key(key)
    log(value)
"""

_SOURCE = _SOURCE.replace("STORE", _STORE)


def heap_access(table: HeapValues, context: AnyContext, info: StateInfo) -> Access:
    """How a handle reads and writes a table of the heap backend."""
    return compiled_access(
        _SOURCE,
        info,
        context=context,
        table=table,
        live=table.live,
        live_get=table.live.get,
        log_key=table.logged_keys.append,
        log=table.logged.append,
        SHARDS=SHARDS,
        delete=table.delete,
    )
