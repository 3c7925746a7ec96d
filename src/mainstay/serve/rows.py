"""Rows as answers: JSON for people, a stream of Arrow batches for programs, both bounded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.inspect.json_values import plain

ARROW = "application/vnd.apache.arrow.stream"
JSON_ROWS = 1_000
"""Rows of an answer in JSON where no limit is given."""
MOST_JSON_ROWS = 10_000
MOST_ARROW_ROWS = 1_000_000


def wants_arrow(accept: str) -> bool:
    return ARROW in accept.lower()


def most_rows(limit: int | None, *, as_arrow: bool) -> int:
    """How many rows an answer may have."""
    if as_arrow:
        return min(MOST_ARROW_ROWS if limit is None else limit, MOST_ARROW_ROWS)
    return min(JSON_ROWS if limit is None else limit, MOST_JSON_ROWS)


def cut(table: pa.Table, most: int) -> tuple[pa.Table, bool]:
    """The first rows, and whether there are more."""
    return table.slice(0, most), table.num_rows > most


def as_objects(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plain(table.to_pylist())
    return found


def as_lists(table: pa.Table) -> list[list[Any]]:
    """By column, because two columns of a statement may have one name."""
    columns = [plain(column.to_pylist()) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]
