"""Rows into the tables of states without a temporary table.

The server does not prepare a transaction that has touched one. So the rows of a vote travel as
arrays, a column each, some thousand rows at a time. An array is sent as one text, because the
driver would take longer for its elements than the server does for the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.connectors.postgres.columns import composed, joined
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.states.readable import OWN, columns_for, shown_columns
from mainstay.connectors.postgres.states.tables import (
    StateTables,
    check_keys,
    own_columns,
    updates_of,
)
from mainstay.state.backends.external.store import StateChanges

ROWS_AT_ONCE = 20_000
BYTES_AT_ONCE = 64 << 20


class UnstagedTables(StateTables):
    """The tables in one schema, written by transactions that are prepared."""

    def _put(self, connection: Any, name: str, changes: StateChanges) -> None:
        check_keys(changes)
        statement = self._upsert(name, columns_for(changes.readable.schema))
        columns = [*own_columns(changes), *shown_columns(changes.readable)]
        for first, rows in _pieces(changes):
            # By number, because a column may have a percent sign in its name.
            with driver().RawCursor(connection) as cursor:
                cursor.execute(statement, [array_of(each.slice(first, rows)) for each in columns])

    def _upsert(self, name: str, columns: list[tuple[str, str]]) -> Any:
        sql = driver().sql
        names = [*OWN, *(each for each, _ in columns)]
        types = ["bytea"] * len(OWN) + [kind for _, kind in columns]
        arrays = [f"${number}::text[]" for number in range(1, len(names) + 1)]
        parts = [f"c{number}" for number in range(len(names))]
        typed = [f"{part}::{kind}" for part, kind in zip(parts, types, strict=True)]
        return composed(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS u({}) ORDER BY 1, 2 "
            "ON CONFLICT (k, s) DO UPDATE SET {}",
            self.named(name),
            joined(names),
            sql.SQL(", ".join(typed)),
            sql.SQL(", ".join(arrays)),
            sql.SQL(", ".join(parts)),
            updates_of(names[2:]),
        )


def _pieces(changes: StateChanges) -> Iterator[tuple[int, int]]:
    """Where each statement begins, and how many rows it has: the server limits its length."""
    largest = max(len(k) + len(s) + len(cell) for k, s, cell in changes.put)
    rows = max(1, min(ROWS_AT_ONCE, BYTES_AT_ONCE // largest))
    for first in range(0, len(changes.put), rows):
        yield first, min(rows, len(changes.put) - first)


def array_of(column: pa.Array) -> str:
    """Values as an array that the server reads; each as when it is copied."""
    texts = pc.replace_substring(column.cast(pa.large_string()), "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    quote = pa.scalar('"', pa.large_string())
    nothing = pa.scalar("", pa.large_string())
    quoted = pc.binary_join_element_wise(quote, texts, quote, nothing)
    return "{" + ",".join(pc.fill_null(quoted, "NULL").to_pylist()) + "}"
