"""Which table over a database is for which shape of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.state.backends.cached.lists import CachedLists
from mainstay.state.backends.cached.maps import CachedMaps
from mainstay.state.backends.cached.tables import CachedColumns, CachedValues
from mainstay.state.info import StateInfo
from mainstay.state.kind import Shape
from mainstay.state.stored_key import StoredKey

TABLES: dict[Shape, Callable[[StateInfo, StoredKey, int, int], Any]] = {
    "value": CachedValues,
    "list": CachedLists,
    "map": CachedMaps,
    "columns": CachedColumns,
}
