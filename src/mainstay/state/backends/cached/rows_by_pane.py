"""Rows by pane in a database: a list for each pair of a key and a pane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainstay.state.backends.cached.dropping import DroppingTable
from mainstay.state.backends.cached.lists import CachedLists
from mainstay.state.backends.listed_rows import ListedRows
from mainstay.state.operations import DELETE


class CachedRows(DroppingTable, ListedRows, CachedLists):
    """Lists of rows by key and pane."""

    def operations(self, changes: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
        return (row for row in super().operations(changes) if row[1] != DELETE)

    def forget(self) -> None:
        """The database was changed under it."""
        super().forget()
        self.look_again()
