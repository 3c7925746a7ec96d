"""Kernels as machine code: compiled once for each function and machine, and cached in files.

The text of a kernel is written to a file of its own, whose name says what is in it, because that is
what numba's cache goes by.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

from mainstay import __version__
from mainstay.errors import MainstayError, named
from mainstay.native.cache import compiled_files, forget, module_of
from mainstay.plan.compiling.parsing import parsed
from mainstay.runtime.compiled import arithmetic
from mainstay.runtime.compiled.kernels import Kernel
from mainstay.runtime.compiled.program import Program

_NATIVE = ("add", "sub", "mul")
_HEAD = '''"""A kernel that Mainstay has compiled. It may be deleted at any time."""

import math

import numpy as np
from numba import njit

from mainstay.native.checked import add, mul, sub
from mainstay.runtime.compiled.arithmetic import Full, Trap
'''


class NumbaKernels:
    """Compiles kernels with numba."""

    def load(self, program: Program) -> Kernel:
        check_numba(program.name)
        try:
            return _kernel(program.text, program.signature)
        except Exception as error:
            # What follows is about the text of the kernel, and is in the cause.
            reason = ": ".join(named(error).splitlines()[:2])
            raise MainstayError(
                f"{program.name} cannot be compiled on this machine: {reason}. Leave out "
                "compiled=True, and it runs as ordinary Python."
            ) from error

    def is_cached(self, program: Program) -> bool:
        """Whether it was compiled on this machine before."""
        return bool(compiled_files(_module_name(_source(program.text), program.signature)))


def check_numba(name: str) -> None:
    """Say what is missing, and how it is installed."""
    if importlib.util.find_spec("numba") is None:
        raise MainstayError(
            f"{name} has compiled=True, which needs numba. Install it with "
            "pip install 'mainstay[compiled]', on the driver and on every worker, or leave out "
            "compiled=True."
        )


def _module_name(source: str, signature: tuple[str, ...]) -> str:
    """The same for what is the same machine code; numba itself tells processors apart."""
    told = f"{__version__} {signature} {source}"
    return f"kernel_{sha256(told.encode()).hexdigest()[:32]}"


@cache
def _kernel(text: str, signature: tuple[str, ...]) -> Kernel:
    # The same results on every machine: no vector functions of a library that may be installed.
    os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")
    from numba import njit

    source = _source(text)
    name = _module_name(source, signature)
    types = tuple(_type(told) for told in signature)

    def made() -> Kernel:
        function: Callable[..., Any] = module_of(source, name).kernel
        kernel: Kernel = njit(types, cache=True, nogil=True)(function)
        return kernel

    try:
        return made()
    except Exception:
        if not compiled_files(name):
            raise
        # What was cached may be damaged.
        forget(name)
        return made()


def _type(told: str) -> Any:
    """A type of numba for the name of one."""
    from numba import types

    scalars = {"int64": types.int64, "float64": types.float64, "bool": types.boolean}
    name, bracket, mark = told.partition("[:]")
    if not bracket:
        return scalars[name]
    return types.Array(scalars[name], 1, "C", readonly=mark != "*")


def _source(text: str) -> str:
    """A file with the kernel, and with what it computes with."""
    tree = parsed(inspect.getsource(arithmetic))
    parts = [_HEAD]
    for node in tree.body:
        if isinstance(node, ast.Assign):
            parts.append(ast.unparse(node))
        elif isinstance(node, ast.FunctionDef) and node.name not in _NATIVE:
            parts.append(f"@njit\n{ast.unparse(_bare(node))}")
    return "\n\n".join([*parts, text])


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function without its annotations, which say nothing to the compiler."""
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
        if isinstance(each, ast.AnnAssign) and each.value is not None:
            each.annotation = ast.Name("object", ast.Load())
    node.returns = None
    return node
