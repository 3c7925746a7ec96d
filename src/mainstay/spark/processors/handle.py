"""The handle of a processor that runs: its states and timers are those of the job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from mainstay.errors import StateTypeError
from mainstay.runtime.operators.group_function import GroupContext
from mainstay.spark.processors import time_modes
from mainstay.spark.processors.declaring import Declared
from mainstay.spark.processors.errors import refuse
from mainstay.spark.processors.settings import ValueSettings
from mainstay.spark.processors.state_values import spark_type
from mainstay.spark.processors.states import (
    DELETED,
    BoundList,
    BoundMap,
    BoundValue,
    UnusableList,
    UnusableMap,
    UnusableValue,
)
from mainstay.state.info import StateInfo
from mainstay.state.kind import StateKind
from mainstay.state.kinds import LIST, MAP, VALUE
from mainstay.state.values import as_kept

_NO_MODE = (
    "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] timers need "
    'time_mode="ProcessingTime" or "EventTime".'
)


class BoundHandle(StatefulProcessorHandle):
    """Given to ``init`` on a worker."""

    def __init__(
        self, group: GroupContext, declared: Declared, time_mode: str, settings: ValueSettings
    ) -> None:
        self._group = group
        self._states = {info.name: info for info in declared.states}
        self._given_up = set(declared.given_up)
        self._time_mode = time_mode
        self._settings = settings
        self.is_initialized = False

    # ------------------------------------------------------------ states

    def getValueState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        info = self._found(stateName, VALUE, "initializing value state")
        if info is None:
            return UnusableValue(stateName, DELETED)
        typed, handle = self._typed(info), self._group.handles[stateName]
        kept = replace(info, value=replace(typed.value, freeze=as_kept, thaw=None))
        return BoundValue(handle.seen_as(typed), handle.seen_as(kept))

    def getListState(
        self,
        stateName: str,
        schema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        info = self._found(stateName, LIST, "initializing list state")
        if info is None:
            return UnusableList(stateName, DELETED)
        return BoundList(self._group.handles[stateName].seen_as(self._typed(info)))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: Any,
        valueSchema: Any,
        ttlDurationMs: Any = None,
    ) -> Any:
        info = self._found(stateName, MAP, "initializing map state")
        if info is None:
            return UnusableMap(stateName, DELETED)
        handle = self._group.handles[stateName]
        rows, tuples = self._typed(info, as_row=True), self._typed(info)
        return BoundMap(handle.seen_as(rows), handle.seen_as(tuples))

    def deleteIfExists(self, stateName: str) -> None:
        if self.is_initialized:
            refuse("deleting state", _LATE)

    def _found(self, name: str, kind: StateKind, doing: str) -> StateInfo | None:
        """The state as it was declared when the graph was built; None if it is deleted."""
        if self.is_initialized:
            refuse(doing, _LATE)
        if name in self._given_up:
            return None
        info = self._states.get(name)
        if info is None or info.kind.name != kind.name:
            refuse(
                doing,
                f"state {name!r} is not among those that init() declared when the graph was built: "
                f"{', '.join(self._states) or 'none'}. Declare the same states whenever and "
                "wherever init() is called.",
            )
        return info

    def _typed(self, info: StateInfo, *, as_row: bool = False) -> StateInfo:
        value = spark_type(info.value.arrow, self._settings, as_row=as_row)
        if info.map_key is None:
            return replace(info, value=value)
        return replace(info, value=value, map_key=spark_type(info.map_key.arrow, self._settings))

    # ------------------------------------------------------------ timers

    def registerTimer(self, expiryTimestampMs: int) -> None:
        timers = self._timers("register timer")
        try:
            timers.set(_microseconds(expiryTimestampMs, "register timer"))
        except (OverflowError, StateTypeError):
            refuse("register timer", f"{expiryTimestampMs!r} is beyond the year 9999.")

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        timers = self._timers("deleting timer")
        try:
            timers.delete(_microseconds(expiryTimestampMs, "deleting timer"))
        except OverflowError:
            return  # there is no such timer

    def listTimers(self) -> Iterator[int]:
        return iter([at_us // 1000 for at_us in self._timers("listing timers").times()])

    def _timers(self, doing: str) -> Any:
        if self._time_mode == time_modes.NONE:
            refuse(doing, _NO_MODE)
        if not self.is_initialized:
            refuse(doing, _EARLY)
        return self._group.timers


_LATE = (
    "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] states are declared "
    "and deleted in init(), and nowhere else."
)
_EARLY = (
    "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] init() has no key, "
    "and a timer belongs to one. Use timers in handleInputRows() and the other methods."
)


def _microseconds(at_ms: Any, doing: str) -> int:
    try:
        return int(at_ms.__index__()) * 1000
    except AttributeError:
        refuse(doing, f"{at_ms!r} is no number of milliseconds since 1970.")
