"""The functions behind the handles of value states, made for one state and its type.

A function that runs once per row and state cannot afford to look its table up, to ask what type
the state has, or to call another function: each of these costs as much as the access itself. So
they are made from source text when the state is opened, with the test that a value usually passes
written in place; whatever does not pass it goes the long way, through ``freeze``.

This is a hot file (benchmarks/state_access.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.state.keyed import Access, KeyContext, checking, no_none, no_reduction
from mainstay.state.ttl import StampedType
from mainstay.state.values import ValueType

if TYPE_CHECKING:
    from mainstay.state.backends.heap_tables import HeapValues

SHARDS = 256
"""Into how many dictionaries a large table is divided, by the hash of the key."""
_SMALL = 1 << 30

_SOURCE = """
def get():
    key = context.key
    shards = table.live_shards
    return live_get(key) if shards is None else shards[hash(key) % SHARDS].get(key)

def get_thawed():
    kept = get()
    return kept if kept is None else thaw(kept)

def update(value):
    if value is None:
        return delete(context.key)
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
    key = context.key
    shards = table.live_shards
    if shards is None:
        live[key] = value
    else:
        shards[hash(key) % SHARDS][key] = value
    log_key(key)
    log(value)
"""


def heap_access(table: HeapValues, context: KeyContext) -> Access:
    """How a handle reads and writes a table of the heap backend."""
    info = table.info
    made: dict[str, Any] = {
        "context": context,
        "table": table,
        "live": table.live,
        "live_get": table.live.get,
        "log_key": table.logged_keys.append,
        "log": table.logged.append,
        "SHARDS": SHARDS,
        "delete": table.delete,
        "thaw": info.value.thaw,
        "function": info.function,
        "checked": checking(info, no_none),
        "reduced": checking(info, no_reduction),
    }
    source = _SOURCE.replace("STORE", _STORE).replace("FITS", fits(info.value))
    exec(compile(source, f"<access to a state of type {info.value.ddl}>", "exec"), made)
    if info.value.thaw is None:
        return Access(made["get"], made["update"], made["add"])
    return Access(made["get_thawed"], made["update"], made["add_thawed"])


def fits(value_type: ValueType) -> str:
    """A test in Python that a value passes only if freezing it gives the value itself."""
    arrow = value_type.arrow
    if isinstance(value_type, StampedType):
        # Pairs are made of what is frozen already.
        return "True"
    if pa.types.is_integer(arrow):
        most = (1 << (arrow.bit_width - 1)) - 1
        # The interpreter compares integers of up to 30 bits in one step.
        is_small = f"{-_SMALL} < value < {_SMALL}"
        fits = f"{-most - 1} <= value <= {most}"
        return f"value.__class__ is int and ({is_small if most > _SMALL else fits} or {fits})"
    if pa.types.is_float64(arrow):
        return "value.__class__ is float and value == value"
    if pa.types.is_string(arrow):
        return "value.__class__ is str and value.isascii()"
    return "False"
