"""Forgetting keys by event time: those whose time is over for every row that may still come.

All keys are looked at once in a while, a slice at a time. The pause is a part of how long a key is
remembered, so that each is looked at a few times in all, however often the watermark moves. When
exactly a key is forgotten changes no result: rows that it could matter for are late.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.runtime.watermarks import END_US
from mainstay.state.keyed import ValueHandle
from mainstay.state.values import Keys

SLICE_KEYS = 2048
PASSES = 4
"""How often the keys are looked at in the time that one is remembered."""


class Forgetting:
    """Deletes what a state and others beside it keep for a key, some time after the time in it."""

    def __init__(self, times: ValueHandle, within_us: int, *beside: ValueHandle) -> None:
        self._times = times
        self._within_us = within_us
        self._beside = beside
        self._due_us: int | None = None

    def on_watermark(self, watermark: TimeMark, fired: FiredTimes) -> Iterator[None]:
        """Rows behind the watermark are late from now on. At the end of time nothing changes: a
        job that has ended may be started again with more rows."""
        if watermark.time_us is None or watermark.time_us >= END_US:
            return
        fired.advance(watermark.time_us)
        horizon = watermark.time_us - self._within_us
        if self._due_us is None:
            self._due_us = watermark.time_us + self._within_us // PASSES
        elif watermark.time_us >= self._due_us:
            self._due_us = watermark.time_us + self._within_us // PASSES
            yield from self._forget(horizon)

    def _forget(self, horizon: int) -> Iterator[None]:
        surveyed = self._times.survey()
        while some := list(islice(surveyed, SLICE_KEYS)):
            self._delete([key for key, time_us in some if time_us <= horizon], horizon)
            yield

    def _delete(self, keys: list[Any], horizon: int) -> None:
        # What was surveyed may be older than what is kept.
        kept = self._times.get_many(Keys(keys))
        pairs = zip(keys, kept, strict=True)
        expired = Keys(key for key, time in pairs if time is not None and time <= horizon)
        for state in (self._times, *self._beside):
            state.put_many(expired, [None] * len(expired))
