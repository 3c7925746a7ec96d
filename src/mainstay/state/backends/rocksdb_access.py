"""The functions behind the handles of value states in RocksDB, made for one state and its type.

As in ``heap_access`` they are made from source text when the state is opened, with the test that a
value usually passes written in place: a row at hand is found by one look into a dictionary, and
these functions add as little to it as a function can.

This is a hot file (benchmarks/rocksdb_state.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstay.state.backends.heap_access import fits
from mainstay.state.keyed import Access, KeyContext, checking, no_none, no_reduction

if TYPE_CHECKING:
    from mainstay.state.backends.rocksdb_tables import RocksValues

_SOURCE = """
def get():
    return live[context.key]

def get_thawed():
    kept = live[context.key]
    return kept if kept is None else thaw(kept)

def update(value):
    key = context.key
    if value is None:
        return delete(key)
    if not (FITS):
        value = checked(value)
    live[key] = value
    table.changes[key] = value

def add(value):
    if not (FITS):
        value = checked(value)
    key = context.key
    current = live[key]
    if current is not None:
        value = function(current, value)
        if not (FITS):
            value = reduced(value)
    live[key] = value
    table.changes[key] = value

def add_thawed(value):
    value = checked(value)
    key = context.key
    current = live[key]
    if current is not None:
        value = reduced(function(thaw(current), thaw(value)))
    live[key] = value
    table.changes[key] = value
"""


def rocks_access(table: RocksValues, context: KeyContext) -> Access:
    """How a handle reads and writes a table of the RocksDB backend."""
    info = table.info
    made: dict[str, Any] = {
        "context": context,
        "table": table,
        "live": table.live,
        "delete": table.delete,
        "thaw": info.value.thaw,
        "function": info.function,
        "checked": checking(info, no_none),
        "reduced": checking(info, no_reduction),
    }
    source = _SOURCE.replace("FITS", fits(info.value))
    exec(compile(source, f"<access to a state of type {info.value.ddl}>", "exec"), made)
    if info.value.thaw is None:
        return Access(made["get"], made["update"], made["add"])
    return Access(made["get_thawed"], made["update"], made["add_thawed"])
