"""Classes of ``pyspark.sql.Row`` for known columns, with attributes that are read in one step.

A row of such a class is a ``Row`` like any other. Columns whose names ``Row`` itself uses
(``count``, ``index``) are read as ``row["count"]``, as they are of any ``Row``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from pyspark.sql import Row

try:
    # What namedtuple itself uses; private, so there is a slower way for an interpreter without it.
    from collections import _tuplegetter as _getter  # type: ignore[attr-defined]
except ImportError:

    def _getter(position: int, doc: str) -> property:
        return property(lambda row: tuple.__getitem__(row, position), doc=doc)


MakeRow = Callable[[Iterable[Any]], Row]


@cache
def row_maker(names: tuple[str, ...]) -> MakeRow:
    """A function that makes a row of values in the order of the names."""
    members: dict[str, Any] = {
        name: _getter(position, f"The column {name!r}.")
        for position, name in enumerate(names)
        if not hasattr(Row, name)
    }
    members["__fields__"] = list(names)
    members["__module__"] = Row.__module__
    return partial(tuple.__new__, type("Row", (Row,), members))
