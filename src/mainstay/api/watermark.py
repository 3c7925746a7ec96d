"""Event time, as a job's author asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from mainstay.api.graph import column_number
from mainstay.api.windows import Duration
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.quantities import seconds
from mainstay.runtime.watermarks import WatermarkSpec
from mainstay.schema import format_type


@with_own_frames
@dataclass(frozen=True, slots=True)
class Watermark:
    """A source's rows carry the time of their events in a column, and come a little out of order.

    A row is *late* when it is older than the newest one of its split by more than ``delay``. A
    split that has had nothing to give for as long as ``idle`` holds the others back no more.
    """

    column: str
    delay: Duration = "0s"
    idle: Duration | None = None

    def __post_init__(self) -> None:
        where = f"Watermark({self.column!r})"
        if not isinstance(self.column, str):
            raise GraphError(
                f'{where} needs the name of the column with the time of an event: Watermark("at").'
            )
        seconds(self.delay, f"{where}: delay")
        if self.idle is not None:
            seconds(self.idle, f"{where}: idle", positive=True)

    def spec(self, schema: pa.Schema, where: str) -> WatermarkSpec:
        number = column_number(schema, self.column, where)
        found = schema.field(number).type
        if not pa.types.is_timestamp(found):
            raise GraphError(
                f"{where}: the watermark's column {self.column!r} is of type {format_type(found)}; "
                "event time is a timestamp. Name a column of that type, or have the source give "
                "one."
            )
        idle_s = None if self.idle is None else seconds(self.idle, "idle")
        return WatermarkSpec(number, int(seconds(self.delay, "delay") * 1_000_000), idle_s)
