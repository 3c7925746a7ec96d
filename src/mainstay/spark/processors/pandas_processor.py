"""A ``StatefulProcessor`` of pandas DataFrames as the function of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa

from mainstay.runtime.operators.group_function import GroupContext
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.spark.processors.frames import FrameReader, FrameWriter
from mainstay.spark.processors.processor import ProcessorFunction
from mainstay.spark.processors.row_values import KeyTuples, gathered
from mainstay.spark.processors.settings import ValueSettings
from mainstay.spark.processors.state_values import naive
from mainstay.state.codes import codes_of, grouped
from mainstay.state.values import Keys

FRAMES_SLICE_S = 0.02
"""To make a DataFrame of a slice, and a batch of many, takes a millisecond: as long as it takes to
make several of one row. So a slice has some dozens of those."""


class FrameGroups:
    """The rows of a batch as DataFrames, one key after the other."""

    def __init__(
        self,
        group: GroupContext,
        reader: KeyReader,
        settings: ValueSettings,
        *,
        is_wide: bool = True,
    ) -> None:
        self._group = group
        self._reader = reader
        self._frames = FrameReader(reader.schema.names, settings, is_wide=is_wide)

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, Iterator[pd.DataFrame]]]:
        """Each key, which is current until the next, with its rows."""
        group = self._group
        column = self._reader.column(batch)
        order, offsets = grouped(codes_of(column))
        keys = group.key.type.from_array(column.take(pa.array(order[offsets[:-1]])))
        assert group.context.keyed is not None
        group.context.keyed.prefetch(Keys(keys))
        frame = self._frames.whole(self._reader.visible(batch).take(pa.array(order)))
        bounds = offsets.tolist()
        for key, start, end in zip(keys, bounds[:-1], bounds[1:], strict=True):
            group.enter(key)
            yield key, self._frames.chunks(frame, start, end)


class PandasKeys(KeyTuples):
    """Keys as a function in pandas is given them: times without a zone, as pandas has them."""

    def __init__(self, group: GroupContext, settings: ValueSettings) -> None:
        super().__init__(group.key.type, group.key.names, settings)
        arrow = group.key.type.arrow
        types = [field.type for field in arrow] if self._is_struct else [arrow]
        zone = None if settings.is_utc else settings.zone
        for number, each in enumerate(types):
            if pa.types.is_timestamp(each):
                self._parts[number] = partial(_time, zone=zone)
        self._has_parts = any(self._parts)


def _time(value: Any, zone: tzinfo | None) -> Any:
    if value is None:
        return None
    return pd.Timestamp(value if value.tzinfo is None else naive(value, zone))


class PandasProcessor(ProcessorFunction):
    """DataFrames in, DataFrames out."""

    slice_s = FRAMES_SLICE_S

    def open(self, group: GroupContext) -> None:
        super().open(group)
        settings = self._shape.settings
        self._keys = PandasKeys(group, settings)
        self._groups = FrameGroups(group, group.reader, settings)
        self._writer = FrameWriter(self._shape.output, group.context.uid, settings)

    def rows(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        method, values = self._processor.handleInputRows, self.timer_values()
        out: list[Any] = []
        for key, frames in self._groups.of(batch):
            result: Any = method(self._keys.of(key), frames, values)
            gathered(result, out, "handleInputRows", self._uid)
        return self._writer.batches(out)

    def initial(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        group, values = self._group, self.timer_values()
        assert group.initial is not None
        for key, frames in FrameGroups(group, group.initial, self._shape.settings).of(batch):
            for frame in frames:
                self._processor.handleInitialState(self._keys.of(key), frame, values)
        return []

    def expired(self, timers: Iterator[tuple[int, Any]]) -> list[pa.RecordBatch]:
        out: list[Any] = []
        self.called_for(timers, out)
        return self._writer.batches(out)
