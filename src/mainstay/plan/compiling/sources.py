"""The text of an author's function, and where in its file it stands."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from types import CodeType, FunctionType
from typing import Any

from mainstay.plan.compiling.parsing import parsed
from mainstay.plan.compiling.refusal import WITHOUT, NotCompiledError, Written


def written(function: FunctionType, name: str) -> Written:
    """The syntax of a function; refused where its text is not to be had."""
    code = function.__code__
    try:
        # Of the code: a function that wraps another one would give the text of that.
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError) as error:
        raise NotCompiledError(
            f"{name} cannot be compiled: its text is not to be had ({error}). Write it in a file "
            f"or in a cell of a notebook. {WITHOUT}"
        ) from error
    if code.co_name == "<lambda>":
        return _lambda(code, name)
    text = textwrap.dedent("".join(lines))
    node = parsed(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise NotCompiledError(
            f"{name} cannot be compiled: it is no function that was written with def. {WITHOUT}"
        )
    return Written(node, tuple(text.splitlines()), code.co_filename, first, name)


def _lambda(code: CodeType, name: str) -> Written:
    """A lambda among others of its file: the one that compiles to the same."""
    lines = linecache.getlines(code.co_filename)
    tree = parsed("".join(lines))
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    alike = [node for node in found if _compiles_to(node, code)]
    if len({ast.dump(node) for node in alike}) != 1:
        raise NotCompiledError(
            f"{name} cannot be compiled: which lambda of its line it is cannot be told. Give it a "
            f"line of its own, or a name with def. {WITHOUT}"
        )
    return Written(alike[0], tuple(line.rstrip("\n") for line in lines), code.co_filename, 1, name)


def _compiles_to(node: ast.Lambda, code: CodeType) -> bool:
    made: Any = compile(ast.Expression(node), code.co_filename, "eval")
    inner = next(each for each in made.co_consts if isinstance(each, CodeType))
    return inner.co_varnames == code.co_varnames and _constants(inner) == _constants(code)


def _constants(code: CodeType) -> tuple[Any, ...]:
    """What tells lambdas apart: their constants and names. Free names are not known to be free
    when a lambda is compiled by itself, so the instructions may differ."""
    names = {*code.co_names, *code.co_freevars}
    return code.co_consts, frozenset(names)
