"""A compiled function that keeps a second account of its timers, for whole jobs.

It is what ``tests.simulation.timer_cases`` plays and checks, with declared timers alone. The kernel
traps for some of its rows.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import mainstay as ms
from tests.simulation.timer_cases import DELETIONS, LATER
from tests.timers import WALL

OF_EVENT_TIME = ("event", "close", "delete event", "clear close")
SECOND, TICK = timedelta(seconds=1), timedelta(milliseconds=40)
LARGE = 1 << 62
LAST_YEAR = 9999


class Compiled(ms.KeyedProcess, compiled=True):
    closing = ms.ValueState("struct<id:long,at:timestamp>")
    ringing = ms.ValueState("struct<id:long,at:timestamp>")
    close = ms.Timer("event_time")
    ring = ms.Timer("processing_time", every="10ms")

    def process(self, row: Any, ctx: Any) -> Any:
        # Of some rows it has more than 64 bits.
        is_large = row.id % 5 == 3 and row.id * LARGE > LARGE
        yield from self.ended(row, is_large)
        if row.act in DELETIONS:
            yield "row", row.id
        elif row.act in OF_EVENT_TIME:
            self.close.set(row.at + SECOND * row.delta)
            self.closing.update((row.id, self.close.get()))
        else:
            self.ring.set(WALL + TICK * (row.delta + 3))
            self.ringing.update((row.id, self.ring.get()))

    def ended(self, row: Any, is_large: bool) -> Any:
        """The timer that there was is replaced or deleted."""
        before = self.closing.get() if row.act in OF_EVENT_TIME else self.ringing.get()
        at = self.close.get() if row.act in OF_EVENT_TIME else self.ring.get()
        assert at == (None if before is None else before.at)
        if before is not None:
            yield "replaced", before.id
        if row.act in DELETIONS and row.act in OF_EVENT_TIME:
            self.close.clear()
            self.closing.clear()
        elif row.act in DELETIONS:
            self.ring.clear()
            self.ringing.clear()

    def on_timer(self, at: Any, ctx: Any) -> Any:
        is_event = ctx.timer == "close"
        account, timer = (self.closing, self.close) if is_event else (self.ringing, self.ring)
        before = account.get()
        assert before is not None, f"{ctx.timer} of {ctx.key} is in no account"
        assert before.at == at, f"{ctx.timer} of {ctx.key} is for {before.at}, and fires as {at}"
        assert timer.get() is None
        assert at <= (ctx.watermark if is_event else ctx.now())
        account.clear()
        yield "fired", before.id
        if before.id % 4 == 0 and before.id < LATER:
            number = before.id + LATER
            if is_event and ctx.watermark.year == LAST_YEAR:
                self.close.set(at)
                yield "ignored", number
            else:
                timer.set(at + (3 * SECOND if is_event else TICK))
                account.update((number, timer.get()))


class Plain(Compiled, compiled=False):
    """The same function, not compiled."""
