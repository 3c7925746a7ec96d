"""Functions whose rows say what to do with timers, for tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import mainstay as ms
from mainstay.testing import rows

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
WALL = datetime.fromtimestamp(1_700_000_000, timezone.utc)
"""What the clock of a simulation begins with."""
ORDER = "key string, do string, at timestamp"
FIRED = "key string, timer string, clock string, at timestamp, watermark timestamp"


def t(seconds: float) -> datetime:
    """Seconds of event time."""
    return START + timedelta(seconds=seconds)


def w(seconds: float) -> datetime:
    """Seconds of processing time."""
    return WALL + timedelta(seconds=seconds)


def short(fired: tuple[Any, ...]) -> tuple[Any, ...]:
    """What has fired, with seconds: key, timer, its time, and the watermark unless that is at its
    end."""
    key, timer, clock, at, watermark = fired
    since = START if clock == "event_time" else WALL
    seen = None if watermark is None else (watermark - START).total_seconds()
    return key, timer or clock[0], (at - since).total_seconds(), seen if seen != END else "end"


END = (datetime.max.replace(tzinfo=timezone.utc) - START).total_seconds()


class Orders(ms.KeyedProcess):
    """Does what rows say, and emits what has fired."""

    close = ms.Timer("event_time")
    ring = ms.Timer("processing_time")
    rounded = ms.Timer("event_time", every="10s")

    def process(self, row: Any, ctx: Any) -> Any:
        assert ctx.timer is None
        assert ctx.time_domain is None
        self.obey(row.do, row.at, ctx)

    def obey(self, do: str, at: datetime, ctx: Any) -> None:
        match do.split():
            case ["event"]:
                ctx.timers.event_time(at)
            case ["processing"]:
                ctx.timers.processing_time(at)
            case ["delete", "event"]:
                ctx.timers.delete_event_time(at)
            case ["delete", "processing"]:
                ctx.timers.delete_processing_time(at)
            case ["set", name]:
                getattr(self, name).set(at)
            case ["clear", name]:
                getattr(self, name).clear()
            case _:
                assert do == "nothing", do

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield ctx.key, ctx.timer, ctx.time_domain, at, ctx.watermark


def stream_of(env: ms.Environment, *, watermark: bool = True) -> ms.Stream:
    time = ms.Watermark("at") if watermark else None
    return env.source(rows(ORDER, []), uid="in", watermark=time)


def build(env: ms.Environment, function: ms.KeyedProcess | None = None) -> None:
    keyed = stream_of(env).key_by("key")
    keyed.process(function or Orders(), FIRED, uid="f").sink(ms.connectors.Memory(), uid="out")
