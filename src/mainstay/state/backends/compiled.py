"""Functions that are made from source text for one state and its type.

A function that runs once per row and state cannot afford to look its table up, to ask what type
the state has, or to call another function: each of these costs as much as the access itself. So
they are made from source text when the state is opened, with the test that a value usually passes
written in place of ``FITS``; whatever does not pass it goes the long way, through ``freeze``.
"""

from __future__ import annotations

from functools import cache
from types import CodeType
from typing import Any

import pyarrow as pa

from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, checking, no_none, no_reduction
from mainstay.state.ttl import StampedType
from mainstay.state.values import ValueType, as_kept

_SMALL = 1 << 30


def compiled_access(source: str, info: StateInfo, **names: Any) -> Access:
    """The functions of ``source`` as a handle needs them; ``names`` are what it refers to."""
    made = {
        "thaw": info.value.thaw,
        "function": info.function,
        "checked": checking(info, no_none),
        "reduced": checking(info, no_reduction),
        **names,
    }
    exec(_code(source.replace("FITS", fits(info.value)), info.value.ddl), made)
    if info.value.thaw is None:
        return Access(made["get"], made["update"], made["add"])
    return Access(made["get_thawed"], made["update"], made["add_thawed"])


@cache
def _code(source: str, ddl: str) -> CodeType:
    """Compiled once for a type, and not again for every subtask and attempt."""
    return compile(source, f"<access to a state of type {ddl}>", "exec")


def fits(value_type: ValueType) -> str:
    """A test in Python that a value passes only if freezing it gives the value itself."""
    arrow = value_type.arrow
    if isinstance(value_type, StampedType) or value_type.freeze is as_kept:
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
