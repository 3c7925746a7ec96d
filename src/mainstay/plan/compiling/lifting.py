"""Names that a function finds outside of itself: what they are, and how to find them again."""

from __future__ import annotations

import builtins
import inspect
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from mainstay.plan.compiling.kernel import Kernel
from mainstay.plan.compiling.values import NOTHING, Thing, Value
from mainstay.runtime.compiled.plain import number_of
from mainstay.runtime.compiled.program import Path

_COLLECTIONS = (tuple, list, set, frozenset)
MOST_ELEMENTS = 1000


class UnknownNameError(Exception):
    """Nothing has this name."""


def free_name(kernel: Kernel, function: FunctionType, path: Path, name: str) -> Value | Thing:
    """What a name that is not assigned in a function stands for."""
    code = function.__code__
    if name in code.co_freevars:
        cell = (function.__closure__ or ())[code.co_freevars.index(name)]
        try:
            return lifted(kernel, cell.cell_contents, (*path, ("cell", name)))
        except ValueError:
            raise UnknownNameError from None
    if name in function.__globals__:
        return lifted(kernel, function.__globals__[name], (*path, ("global", name)))
    if hasattr(builtins, name):
        return Thing("object", getattr(builtins, name), path, name=name)
    raise UnknownNameError


def lifted(kernel: Kernel, found: Any, path: Path) -> Value | Thing:
    """An object of the interpreter as something that a kernel can work with."""
    if found is None:
        kernel.guard(path, None)
        return NOTHING
    value = kernel.constant(path, found)
    if value is not None:
        return value
    if isinstance(found, _COLLECTIONS):
        return Thing("collection", found, path)
    if isinstance(found, FunctionType | BuiltinFunctionType | ModuleType | type):
        return Thing("object", found, path)
    if inspect.ismethod(found):
        return Thing("method", found, path)
    return Thing("instance", found, path)


def is_simple(collection: Any) -> bool:
    """Whether all elements are plain values, and not too many."""
    if len(collection) > MOST_ELEMENTS:
        return False
    return all(each is None or number_of(each) is not None for each in collection)
