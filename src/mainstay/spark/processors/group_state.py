"""Functions of ``applyInPandasWithState`` as functions of an operator.

A key has one value and one timeout. Both are states of the job; Spark's ``GroupState`` is made of
them for each call, and what it holds afterwards is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkValueError
from pyspark.sql import Row
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from mainstay.errors import GraphError, StateTypeError
from mainstay.runtime.operators.group_function import GroupContext
from mainstay.spark.processors.errors import refuse_value
from mainstay.spark.processors.frames import FrameWriter
from mainstay.spark.processors.pandas_processor import FRAMES_SLICE_S, FrameGroups, PandasKeys
from mainstay.spark.processors.row_values import gathered
from mainstay.spark.processors.settings import ValueSettings
from mainstay.spark.processors.state_values import spark_type
from mainstay.spelling import did_you_mean
from mainstay.state.info import StateInfo
from mainstay.state.kinds import TIMER, VALUE
from mainstay.state.timer_handles import EVENT_TIME, PROCESSING_TIME, TimerHandle, TimerSpec
from mainstay.state.timer_handles import microseconds as since_1970
from mainstay.state.values import ValueType

STATE, TIMEOUT = "state", "timeout"
_DOMAINS: dict[str, str | None] = {
    GroupStateTimeout.NoTimeout: None,
    GroupStateTimeout.ProcessingTimeTimeout: PROCESSING_TIME,
    GroupStateTimeout.EventTimeTimeout: EVENT_TIME,
}


@dataclass(frozen=True, slots=True)
class GroupStateShape:
    """How a function is called, and what is known of it before the job starts."""

    state: pa.DataType
    output: pa.Schema
    timeout: str
    settings: ValueSettings

    @property
    def domain(self) -> str | None:
        """Which clock timeouts go by."""
        return _DOMAINS[self.timeout]

    def states(self) -> tuple[StateInfo, ...]:
        """What is kept for each key."""
        value = StateInfo(STATE, VALUE, ValueType.of(self.state), may_lose_fields=True)
        if self.domain is None:
            return (value,)
        time = ValueType.of("timestamp")
        return (value, StateInfo(TIMEOUT, TIMER, time, timer=TimerSpec(self.domain)))


def checked_timeout(given: Any, where: str) -> str:
    """One of Spark's timeouts, whatever the case of its letters."""
    known = {each.lower(): each for each in _DOMAINS}
    found = known.get(str(given).lower())
    if found is None:
        raise GraphError(
            f"{where}: timeout={given!r} is unknown; choose one of "
            f"{', '.join(map(repr, _DOMAINS))}.{did_you_mean(str(given), _DOMAINS)}"
        )
    return found


class GroupStateFunction:
    """DataFrames of a key and its ``GroupState`` in, DataFrames out."""

    slice_s = FRAMES_SLICE_S

    def __init__(self, function: Callable[..., Any], shape: GroupStateShape) -> None:
        self._function = function
        self._shape = shape

    def open(self, group: GroupContext) -> None:
        shape = self._shape
        self._group = group
        self._schema = from_arrow_schema(pa.schema(list(shape.state)))
        handle = group.handles[STATE]
        self._state = handle.seen_as(
            replace(handle.info, value=spark_type(shape.state, shape.settings))
        )
        self._keys = PandasKeys(group, shape.settings)
        self._groups = FrameGroups(group, group.reader, shape.settings, is_wide=False)
        self._writer = FrameWriter(shape.output, group.context.uid, shape.settings)

    def close(self) -> None:
        """A plain function has nothing to close."""

    def rows(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        out: list[Any] = []
        for key, frames in self._groups.of(batch):
            self._call(key, frames, self._old_timeout(), out, has_timed_out=False)
        return self._writer.batches(out)

    def initial(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        raise AssertionError("a function with a GroupState has no initial state")

    def expired(self, timers: Iterator[tuple[int, Any]]) -> list[pa.RecordBatch]:
        out: list[Any] = []
        for at_us, key in timers:
            self._call(key, iter(()), at_us // 1000, out, has_timed_out=True)
        return self._writer.batches(out)

    def _call(
        self, key: Any, frames: Iterator[Any], old_ms: int, out: list[Any], *, has_timed_out: bool
    ) -> None:
        state = self._made(has_timed_out=has_timed_out)
        state._old_timeout_timestamp = old_ms
        result = self._function(self._keys.of(key), frames, state)
        gathered(result, out, "the function", self._group.context.uid)
        self._store(state, has_timed_out=has_timed_out)

    def _made(self, *, has_timed_out: bool) -> GroupState:
        group, value = self._group, self._state.get()
        return GroupState(
            optionalValue=Row(*(value or ())),
            batchProcessingTimeMs=group.now_ms,
            eventTimeWatermarkMs=group.watermark_ms if group.has_time else GroupState.NO_TIMESTAMP,
            timeoutConf=self._shape.timeout,
            hasTimedOut=has_timed_out,
            watermarkPresent=group.has_time,
            defined=value is not None,
            updated=False,
            removed=False,
            # A timeout holds until the next call, which sets it anew or has none.
            timeoutTimestamp=GroupState.NO_TIMESTAMP,
            keyAsUnsafe=b"",
            valueSchema=self._schema,
        )

    def _old_timeout(self) -> int:
        timers = self._group.timers
        at = None
        if timers is not None and isinstance(timers.handle, TimerHandle):
            at = timers.handle.get()
        return GroupState.NO_TIMESTAMP if at is None else since_1970(at) // 1000

    def _store(self, state: GroupState, *, has_timed_out: bool) -> None:
        if state._removed:
            self._state.clear()
        elif state._updated:
            try:
                self._state.update(tuple(state._value))
            except StateTypeError as error:
                refuse_value("updating state", error)
        timers = self._group.timers
        if timers is None:
            return
        if state._timeout_timestamp != GroupState.NO_TIMESTAMP:
            timers.set(_in_range(int(state._timeout_timestamp)) * 1000)
        elif not has_timed_out:
            timers.clear()


def _in_range(at_ms: int) -> int:
    if at_ms >= 253_402_300_800_000:
        raise PySparkValueError(f"the timeout timestamp {at_ms} is beyond the year 9999.")
    return at_ms
