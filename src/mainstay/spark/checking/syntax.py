"""Small questions about the text of a program."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def method_calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    """Calls such as ``a.b(...)``, each with the ``a.b`` of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func


def argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """An argument of a call, by its place or its name."""
    named = (each.value for each in call.keywords if each.arg == name)
    return call.args[place] if len(call.args) > place else next(named, None)


def field_of(node: ast.AST | None, owner: str) -> str | None:
    """The ``b`` of ``a.b`` where ``a`` is a name; None for everything else."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    return node.attr if node.value.id == owner else None


def last_name(node: ast.expr) -> str | None:
    """The ``c`` of ``a.b.c`` or of ``c``; None for everything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What is assigned to, and what is assigned."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield target, node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            yield node.target, node.value
