"""What ``df.groupBy(...)`` holds in a session of Spark Connect, where no plan can be looked at.

Columns are known by what was written: one name alone is a column of the DataFrame, anything else
an expression.
"""

from __future__ import annotations

from typing import Any

_KINDS = {"rollup": "Rollup", "cube": "Cube", "pivot": "Pivot", "grouping_sets": "GroupingSets"}


def connect_kind(grouped: Any) -> str | None:
    """What it is, if it is not plain ``groupBy``, as a classic session calls it."""
    return _KINDS.get(grouped._group_type)


def connect_columns(grouped: Any) -> list[Any]:
    return list(grouped._grouping_cols)


def connect_names(df: Any, columns: list[Any]) -> tuple[list[str], list[bool]]:
    """What each column is called, and whether it is one of the DataFrame's own."""
    own = {name.lower(): name for name in df.columns}
    names, are_own = [], []
    for column, name in zip(columns, df.select(*columns).columns, strict=True):
        is_own = _is_one_name(column, name) and name.lower() in own
        names.append(own[name.lower()] if is_own else name)
        are_own.append(is_own)
    return names, are_own


def _is_one_name(column: Any, name: str) -> bool:
    """Whether a column was written as its name: ``a.b`` may be a field of a column ``a``."""
    written = getattr(column._expr, "_unparsed_identifier", None)
    return written is not None and written in (name, f"`{name}`")
