"""Timers that are set and have not fired, and late rows that nobody reads."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import (
    PendingTimer,
    SimulatedClock,
    Watermark,
    advance_clock,
    crash,
    rows,
    run,
)

CLICK = "user string, at timestamp"


def t(second: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=second)


class Sessions(ms.KeyedProcess):
    close = ms.Timer("event_time")

    def process(self, row: Any, ctx: Any) -> None:
        self.close.set(row.at + timedelta(seconds=10))
        ctx.timers.event_time(row.at)
        ctx.timers.processing_time(t(60))

    def on_timer(self, at: Any, ctx: Any) -> Any:
        yield ctx.key, at


def build(env: ms.Environment) -> None:
    clicks = env.source(rows(CLICK, []), uid="clicks", watermark=ms.Watermark("at"))
    timed = clicks.key_by("user").process(Sessions(), "user string, at timestamp", uid="sessions")
    timed.sink(ms.connectors.Memory(), uid="out")


@pytest.mark.parametrize("more", [[], [crash()]])
def test_timers_that_have_not_fired_are_shown_in_the_order_of_their_times(more: list[Any]) -> None:
    given = [("a", t(1)), ("b", t(3)), ("a", t(5)), Watermark(t(4)), *more]
    result = run(build, {"clicks": given}, ends=False, clock=SimulatedClock(t(0).timestamp()))
    timers = result.timers("sessions")
    assert [each for each in timers if each.domain == "event_time"] == [
        PendingTimer("a", t(5), "event_time", None),
        PendingTimer("b", t(13), "event_time", "close"),
        PendingTimer("a", t(15), "event_time", "close"),
    ]
    assert [each for each in timers if each.domain == "processing_time"] == [
        PendingTimer("a", t(60), "processing_time", None),
        PendingTimer("b", t(60), "processing_time", None),
    ]


def test_timers_that_fired_are_gone() -> None:
    given = [("a", t(1)), Watermark(t(20)), advance_clock("2min")]
    result = run(build, {"clicks": given}, ends=False, clock=SimulatedClock(t(0).timestamp()))
    assert result.timers("sessions") == []
    ended = run(build, {"clicks": [("a", t(1))]}).timers("sessions")
    assert not [each for each in ended if each.domain == "event_time"]


def test_an_operator_without_timers_is_named() -> None:
    result = run(build, {"clicks": []})
    with pytest.raises(KeyError, match="'clicks' has no timers"):
        result.timers("clicks")
    with pytest.raises(KeyError, match="there is no operator 'session'"):
        result.timers("session")


def test_late_rows_that_nobody_reads_let_rows_be_combined() -> None:
    def windows(env: ms.Environment) -> None:
        clicks = env.source(rows(CLICK, []), uid="clicks", watermark=ms.Watermark("at"))
        windowed = clicks.key_by("user").window(ms.tumbling("10s"))
        windowed.aggregate(n=ms.count(), uid="n").sink(ms.connectors.Memory(), uid="out")

    given = [("a", t(1)), ("a", t(2)), Watermark(t(10)), ("a", t(3))]
    read = run(windows, {"clicks": given})
    unread = run(windows, {"clicks": given}, read_late=False)
    assert read.output("out") == unread.output("out") == [("a", t(0), t(10), 2)]
    assert read.late("n") == [("a", t(3))]
    names = [[o.uid for _, o in each.job.operators()] for each in (read, unread)]
    assert ["combine-1" in each for each in names] == [False, True]
    with pytest.raises(KeyError, match="with read_late=False nobody reads late rows"):
        unread.late("n")
