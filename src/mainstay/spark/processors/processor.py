"""A ``StatefulProcessor`` of rows as the function of an operator.

This is a hot file (benchmarks/stateful_processor.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    TimerValues,
)

from mainstay.runtime.operators.group_function import GroupContext
from mainstay.spark.processors import time_modes
from mainstay.spark.processors.declaring import Declared
from mainstay.spark.processors.handle import BoundHandle
from mainstay.spark.processors.row_values import KeyTuples, RowReader, RowWriter, gathered
from mainstay.spark.processors.settings import ValueSettings


@dataclass(frozen=True, slots=True)
class ProcessorShape:
    """How a processor is called, and what is known of it before the job starts."""

    declared: Declared
    output: pa.Schema
    time_mode: str
    settings: ValueSettings


class ProcessorFunction:
    """What both variants share. ``open`` binds the states and runs ``init`` again."""

    slice_s = 0.0
    _keys: KeyTuples

    def __init__(self, processor: StatefulProcessor, shape: ProcessorShape) -> None:
        self._processor = processor
        self._shape = shape

    def open(self, group: GroupContext) -> None:
        shape = self._shape
        self._group = group
        self._uid = group.context.uid
        names = group.key.names
        self._keys = KeyTuples(group.key.type, names, shape.settings)
        handle = BoundHandle(group, shape.declared, shape.time_mode, shape.settings)
        self._processor.init(handle)
        handle.is_initialized = True

    def timer_values(self) -> TimerValues:
        """The time of the current slice."""
        if self._shape.time_mode == time_modes.NONE:
            return TimerValues(-1, -1)
        return TimerValues(self._group.now_ms, self._group.watermark_ms)

    def initial(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Call ``handleInitialState`` for the rows of the initial state; it emits nothing."""
        raise NotImplementedError

    def called_for(self, timers: Iterator[tuple[int, Any]], out: list[Any]) -> None:
        """Call ``handleExpiredTimer`` for each timer."""
        method, row_of, values = self._processor.handleExpiredTimer, self._keys.row, None
        for at_us, key in timers:
            values = values or self.timer_values()
            info = ExpiredTimerInfo(at_us // 1000)
            result: Any = method(key=row_of(key), timerValues=values, expiredTimerInfo=info)
            gathered(result, out, "handleExpiredTimer", self._uid)

    def rows(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        raise NotImplementedError

    def expired(self, timers: Iterator[tuple[int, Any]]) -> list[pa.RecordBatch]:
        raise NotImplementedError

    def close(self) -> None:
        self._processor.close()


class RowProcessor(ProcessorFunction):
    """Rows in, rows out."""

    def open(self, group: GroupContext) -> None:
        super().open(group)
        settings = self._shape.settings
        self._reader = RowReader(group.reader, settings)
        self._writer = RowWriter(self._shape.output, group.context.uid, settings)

    def rows(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        group, ctx = self._group, self._group.ctx
        keys, rows = self._reader.keys_and_rows(batch)
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        for key, row in zip(keys, rows, strict=True):
            groups[key].append(row)
        assert group.context.keyed is not None
        group.context.keyed.prefetch(list(groups))
        method, values = self._processor.handleInputRows, self.timer_values()
        is_plain, tuple_of = self._keys.is_plain, self._keys.of
        out: list[Any] = []
        extend = out.extend
        for key, some in groups.items():
            ctx.key = ctx.current_key = key
            given = (key,) if is_plain else tuple_of(key)
            result: Any = method(given, iter(some), values)
            if result.__class__ is GeneratorType:
                extend(result)
            else:
                gathered(result, out, "handleInputRows", self._uid)
        return self._writer.batches(out)

    def initial(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        group = self._group
        assert group.initial is not None
        keys, rows = RowReader(group.initial, self._shape.settings).keys_and_rows(batch)
        values = self.timer_values()
        for key, row in zip(keys, rows, strict=True):
            group.enter(key)
            self._processor.handleInitialState(self._keys.of(key), row, values)
        return []

    def expired(self, timers: Iterator[tuple[int, Any]]) -> list[pa.RecordBatch]:
        out: list[Any] = []
        self.called_for(timers, out)
        return self._writer.batches(out)
