"""Which table of the RocksDB backend is for which state."""

from __future__ import annotations

from typing import Any

from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.cached.tables import CachedColumns
from mainstay.state.backends.contract import Place
from mainstay.state.backends.rocksdb.timers import CachedTimers
from mainstay.state.info import StateInfo
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import stored_info


def tables_of(place: Place) -> dict[str, Any]:
    """The tables of the states of a subtask, by name, numbered in their order."""
    infos = map(stored_info, place.states)
    return {info.name: _table(info, number, place) for number, info in enumerate(infos)}


def _table(info: StateInfo, number: int, place: Place) -> Any:
    stored = StoredKey.of(place.key, info.namespace)
    if info.timer is not None:
        return CachedTimers(info, stored, number, place.max_parallelism, place.groups)
    table = TABLES[info.kind.shape](info, stored, number, place.max_parallelism)
    if isinstance(table, CachedColumns):
        table.append_sets()
    return table
