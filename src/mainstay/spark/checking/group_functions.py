"""Functions of ``applyInPandasWithState`` in a file, and what they do with their ``GroupState``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pyspark.sql.streaming.state import GroupState

from mainstay.spark.checking.findings import (
    DIFFERENT,
    GROUP_STATE,
    UNSUPPORTED,
    CheckedFunction,
    Finding,
    FoundCall,
)
from mainstay.spark.checking.syntax import argument, field_of, method_calls

_ARGUMENTS = 3
STATE = "GroupState"


def group_functions(tree: ast.Module) -> list[CheckedFunction]:
    """The functions that are given to ``applyInPandasWithState``, or say that they are for it."""
    given = set(_given(tree))
    return [
        _checked(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and len(node.args.args) == _ARGUMENTS
        and (node.name in given or _is_annotated(node))
    ]


def _given(tree: ast.Module) -> Iterator[str]:
    for call, function in method_calls(tree):
        given = argument(call, 0, "func")
        if function.attr == GROUP_STATE and isinstance(given, ast.Name):
            yield given.id


def _is_annotated(node: ast.FunctionDef) -> bool:
    annotation = node.args.args[-1].annotation
    return annotation is not None and STATE in ast.unparse(annotation)


def _checked(node: ast.FunctionDef) -> CheckedFunction:
    uses = _uses(node)
    calls = tuple(
        FoundCall(STATE, name, tuple(lines), hasattr(GroupState, name))
        for name, lines in sorted(uses.items(), key=lambda each: each[1])
    )
    return CheckedFunction(
        node.name, GROUP_STATE, node.lineno, calls=calls, findings=tuple(_findings(calls))
    )


def _uses(node: ast.FunctionDef) -> dict[str, list[int]]:
    """What is read or called of the state, with the lines."""
    state, found = node.args.args[-1].arg, dict[str, list[int]]()
    for each in ast.walk(node):
        name = field_of(each, state)
        if name is not None and isinstance(each, ast.Attribute):
            found.setdefault(name, []).append(each.lineno)
    return {name: sorted(lines) for name, lines in found.items()}


def _findings(calls: tuple[FoundCall, ...]) -> Iterator[Finding]:
    for call in calls:
        if not call.is_supported:
            text = f"{call.on} has no {call.method} in Python"
            yield Finding(UNSUPPORTED, text, call.lines[0])
    yield Finding(DIFFERENT, "the function is called for each key and slice of rows")
    timeouts = [call for call in calls if call.method.startswith("setTimeout")]
    for call in timeouts[:1]:
        yield Finding(DIFFERENT, "timeouts also come while no rows come", call.lines[0])
