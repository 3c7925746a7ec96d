"""Which handle stands in for which kind of state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.state.collection_handles import ListHandle, MapHandle
from mainstay.state.columns import ColumnsHandle
from mainstay.state.declaration import StateInfo
from mainstay.state.keyed import AggregatingHandle, KeyContext, ReducingHandle, ValueHandle

HANDLES: dict[str, Callable[[StateInfo, Any, KeyContext], Any]] = {
    "value": ValueHandle,
    "reducing": ReducingHandle,
    "aggregating": AggregatingHandle,
    "list": ListHandle,
    "map": MapHandle,
    "columns": ColumnsHandle,
}
