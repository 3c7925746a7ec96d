"""Which table over a database is for which shape of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.state.backends.cached.lists import CachedLists
from mainstay.state.backends.cached.maps import CachedMaps
from mainstay.state.backends.cached.panes import CachedPanes
from mainstay.state.backends.cached.rows_by_pane import CachedRows
from mainstay.state.backends.cached.spans import CachedSpans
from mainstay.state.backends.cached.tables import CachedColumns, CachedValues
from mainstay.state.columns import has_panes
from mainstay.state.info import StateInfo
from mainstay.state.kind import Shape
from mainstay.state.stored_key import StoredKey


def columns_of(
    info: StateInfo, stored: StoredKey, number: int, max_parallelism: int
) -> CachedColumns:
    """The table of accumulators, in panes where they are kept by something that has an order."""
    table = CachedPanes if has_panes(info) else CachedColumns
    return table(info, stored, number, max_parallelism)


TABLES: dict[Shape, Callable[[StateInfo, StoredKey, int, int], Any]] = {
    "value": CachedValues,
    "column": CachedValues,
    "list": CachedLists,
    "map": CachedMaps,
    "columns": columns_of,
    "rows": CachedRows,
    "spans": CachedSpans,
}
