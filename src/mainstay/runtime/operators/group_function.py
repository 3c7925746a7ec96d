"""What a function of all rows of a key is to its operator: what it is given, and what it is asked.

The functions of PySpark are called through it (``mainstay.spark.processors``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.runtime.operators.timer_passes import TimerPasses
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import KeySpec


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """What a group function goes by: which clock its timers have, if any, and the column of event
    time, where rows that are not newer than the watermark are dropped.

    A timer fires when its clock has come to it; with ``is_strict`` when it has passed it, in
    milliseconds. ``comes`` says whether there is event time at all; the plan knows. With
    ``hold_s`` rows are held so long, and until the next marker at most.
    """

    domain: str | None = None
    column: int | None = None
    is_strict: bool = False
    comes: bool = False
    hold_s: float | None = None


class GroupContext:
    """What a group function is given when it is opened, and the time of the current slice."""

    __slots__ = (
        "context",
        "ctx",
        "handles",
        "has_time",
        "initial",
        "key",
        "now_ms",
        "reader",
        "timers",
        "watermark_ms",
    )

    def __init__(
        self,
        context: OperatorContext,
        key: KeySpec,
        reader: KeyReader,
        timers: TimerPasses | None,
        *,
        has_time: bool,
    ) -> None:
        assert context.keyed is not None
        self.context = context
        self.ctx: ProcessContext = context.row_context
        self.handles = context.keyed.handles
        self.key = key
        self.reader = reader
        self.timers = timers
        self.has_time = has_time
        """Whether event time comes to it."""
        self.initial: KeyReader | None = None
        """How rows of the initial state are read, where there are any."""
        self.now_ms = self.watermark_ms = 0

    def enter(self, key: Any) -> None:
        """Let states and timers be those of a key, in its kept form."""
        self.ctx.key = self.ctx.current_key = key


class GroupFunction(Protocol):
    """What is called. Each call gives batches to be emitted."""

    slice_s: float
    """How long it computes for a slice at least (``Operator.slice_s``)."""

    def open(self, group: GroupContext) -> None:
        """State is restored by now."""

    def rows(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """All rows of a slice."""

    def initial(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Rows of the initial state, all of which come before any other rows."""

    def expired(self, timers: Iterator[tuple[int, Any]]) -> Sequence[pa.RecordBatch]:
        """Timers that are due, by time and key. Their state is as they left it."""

    def close(self) -> None:
        """The job ends in good order."""
