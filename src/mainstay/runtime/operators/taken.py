"""Rows as a function gave them, whatever it does to them afterwards.

Rows become columns many at a time. A function that keeps a dict or a list, fills it anew for each
row and yields it would give the last row over and over. So what can be changed is copied when it is
given. A tuple of plain values is as good as a copy, and is all that most functions give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Taking:
    """How rows of a schema are taken: those of the class ``as_is`` as they are."""

    as_is: type | None
    take: Callable[[Any], Any]

    @staticmethod
    def of(schema: pa.Schema) -> Taking:
        if any(pa.types.is_nested(each.type) for each in schema):
            return Taking(None, copied)
        return Taking(tuple, _copied_row)


def _copied_row(row: Any) -> Any:
    """A row of plain values, which are not copied."""
    if isinstance(row, dict):
        return dict(row)
    return list(row) if isinstance(row, list) else row


def copied(value: Any) -> Any:
    """A value with copies of all lists, dicts and the like within it."""
    kind = type(value)
    if kind is list:
        return [copied(each) for each in value]
    if kind is dict:
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return _copied_tuple(value)
    if isinstance(value, dict | list | set | bytearray):
        return value.copy()
    return value


def _copied_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    kind = type(value)
    taken: tuple[Any, ...] = tuple.__new__(kind, [copied(each) for each in value])
    # Rows of PySpark have their names there.
    if kind is not tuple and (names := getattr(value, "__dict__", None)):
        vars(taken).update(names)
    return taken
