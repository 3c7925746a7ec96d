"""What a handle gives for what is kept of a key, for those who look without a handle.

A handle reads by the key of the current row, and a read of it may be a change: it caches, and it
prolongs a time to live. A look from outside (``KeyedBackend.peek``) must do neither.
"""

from __future__ import annotations

from typing import Any

from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType


def _thawed(type: ValueType, kept: Any) -> Any:
    return kept if kept is None or type.thaw is None else type.thaw(kept)


def given_value(info: StateInfo, kept: Any) -> Any:
    return _thawed(info.value, kept)


def given_result(info: StateInfo, kept: Any) -> Any:
    return None if kept is None else info.function.result(_thawed(info.value, kept))


def given_list(info: StateInfo, kept: Any) -> list[Any]:
    return [_thawed(info.value, element) for element in kept or ()]


def given_map(info: StateInfo, kept: Any) -> dict[Any, Any]:
    assert info.map_key is not None
    entries = {} if kept is None else kept
    return {
        _thawed(info.map_key, map_key): _thawed(info.value, value)
        for map_key, value in entries.items()
    }
