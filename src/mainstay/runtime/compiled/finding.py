"""How to find what a function uses: a global, an attribute, a cell, by the path that the plan took.

Paths begin at the function object, in the driver as on the workers.
"""

from __future__ import annotations

import builtins
import inspect
from typing import Any

from mainstay.runtime.compiled.program import Path
from mainstay.runtime.row_context import ProcessContext


class LostError(Exception):
    """There is nothing at the end of a path any more."""


def found(function: Any, ctx: ProcessContext | None, path: Path) -> Any:
    """What is at the end of a path."""
    here = function
    try:
        for step, name in path:
            here = ctx if step == "ctx" else here
            here = _next(here, step, name)
    except Exception as error:
        # Whatever stands in the way of it, the function itself meets it where it asks.
        raise LostError(path) from error
    return here


def _next(here: Any, step: str, name: str) -> Any:
    match step:
        case "process":
            process = type(here).process
            return getattr(process, "__func__", process)
        case "attr" | "ctx":
            return getattr(here, name)
        case "call":
            return here()
        case "global":
            return here.__globals__[name] if name in here.__globals__ else getattr(builtins, name)
        case "cell":
            return here.__closure__[here.__code__.co_freevars.index(name)].cell_contents
        case "default":
            return inspect.signature(here).parameters[name].default
        case _:
            return _declaration(type(here), name).function


def _declaration(cls: type, name: str) -> Any:
    """The declaration of a state, in whose place the instance has a handle."""
    for each in cls.__mro__:
        if name in vars(each):
            return vars(each)[name]
    raise KeyError(name)
