"""Which table of the RocksDB backend is for which shape of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.state.backends.rocksdb.lists import RocksLists
from mainstay.state.backends.rocksdb.maps import RocksMaps
from mainstay.state.backends.rocksdb.tables import RocksColumns, RocksValues
from mainstay.state.info import StateInfo
from mainstay.state.kind import Shape
from mainstay.state.stored_key import StoredKey

TABLES: dict[Shape, Callable[[StateInfo, StoredKey, int, int], Any]] = {
    "value": RocksValues,
    "list": RocksLists,
    "map": RocksMaps,
    "columns": RocksColumns,
}
