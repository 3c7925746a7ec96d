"""Rows into the tables of states without a temporary table.

The server does not prepare a transaction that has touched one. So the rows of a vote travel as
arrays, a column each, some thousand rows at a time.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.connectors.postgres.columns import composed, joined
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.states.readable import OWN, columns_for, shown_columns
from mainstay.connectors.postgres.states.tables import StateTables, check_keys, updates_of
from mainstay.state.backends.external.store import StateChanges

ROWS_AT_ONCE = 20_000


class UnstagedTables(StateTables):
    """The tables in one schema, written by transactions that are prepared."""

    def _put(self, connection: Any, name: str, changes: StateChanges) -> None:
        check_keys(changes)
        columns = columns_for(changes.readable.schema)
        statement = self._upsert(name, columns)
        own = [list(column) for column in zip(*changes.put, strict=True)]
        shown = [_texts(column) for column in shown_columns(changes.readable)]
        for first in range(0, len(changes.put), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            # By number, because a column may have a percent sign in its name.
            with driver().RawCursor(connection) as cursor:
                cursor.execute(statement, [column[rows] for column in (*own, *shown)])

    def _upsert(self, name: str, columns: list[tuple[str, str]]) -> Any:
        sql = driver().sql
        names = [*OWN, *(each for each, _ in columns)]
        types = ["bytea"] * len(OWN) + [kind for _, kind in columns]
        sent = ["bytea"] * len(OWN) + ["text"] * len(columns)
        arrays = [f"${number}::{kind}[]" for number, kind in enumerate(sent, 1)]
        parts = [f"c{number}" for number in range(len(names))]
        typed = [f"{part}::{kind}" for part, kind in zip(parts, types, strict=True)]
        return composed(
            "INSERT INTO {} ({}) SELECT {} FROM unnest({}) AS u({}) ORDER BY c0, c1 "
            "ON CONFLICT (k, s) DO UPDATE SET {}",
            self.named(name),
            joined(names),
            sql.SQL(", ".join(typed)),
            sql.SQL(", ".join(arrays)),
            sql.SQL(", ".join(parts)),
            updates_of(names[2:]),
        )


def _texts(column: pa.Array) -> list[str | None]:
    """Values as the server reads them, as when they are copied."""
    return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
