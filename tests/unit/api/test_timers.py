"""Timers that cannot be: what is said about it, when, and which remedy."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError, MainstayError, UserFunctionError
from mainstay.testing import run
from tests.timers import FIRED, ORDER, Orders, build, stream_of, t

SINK = ms.connectors.Memory()


class Silent(ms.KeyedProcess):
    close = ms.Timer("event_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.close.set(row.at)


class SilentBatches(ms.KeyedBatchProcess):
    close = ms.Timer("event_time")

    def process(self, batch: Any, ctx: Any) -> Any:
        return None


class NoTimer(ms.KeyedBatchProcess):
    def process(self, batch: Any, ctx: Any) -> Any:
        return None

    def on_timers(self, keys: Any, times: Any, ctx: Any) -> Any:
        return None


class Clash(Orders):
    event_timers = ms.ValueState("long")


class WrongArguments(Orders):
    def on_timer(self, ctx: Any) -> Any:  # type: ignore[override]
        return None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            Silent(),
            r"class Silent declares the timer 'close', but has no method on_timer.*def on_t",
        ),
        (Clash(), r"operator 'f' \(process\) has a state 'event_timers'.*another name"),
        (WrongArguments(), r"on_timer.*cannot be called with 2 arguments.*def on_timer"),
    ],
)
def test_a_function_that_cannot_have_timers_is_refused(function: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        build(ms.Environment(), function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (SilentBatches(), r"declares the timer 'close', but has no method on_timers"),
        (NoTimer(), r"has on_timers, but declares no timer.*ms.Timer"),
    ],
)
def test_a_function_over_batches_declares_timers_and_has_on_timers(
    function: Any, said: str
) -> None:
    with pytest.raises(GraphError, match=said):
        stream_of(ms.Environment()).key_by("key").process_batches(function, FIRED, uid="f")


class OfTwo(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        ctx.timers.event_time(row.at)

    def process_right(self, row: Any, ctx: Any) -> Any:
        ctx.timers.event_time(row.at)

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        return None


def test_without_a_key_there_are_no_timers() -> None:
    stream = stream_of(ms.Environment())
    with pytest.raises(GraphError, match=r"class OfTwo has on_timer, but its stream has no key"):
        stream.connect(stream.broadcast()).process(OfTwo(), FIRED, uid="f")


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (("event-time",), {}, r"Timer\('event-time'\).*Did you mean 'event_time'"),
        (("event_time",), {"every": "0s"}, r"every='0s' must be a duration of more than zero"),
        (("event_time",), {"every": 1e-9}, r"at least a microsecond"),
    ],
)
def test_a_wrong_declaration_is_refused(arguments: Any, settings: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        ms.Timer(*arguments, **settings)


def test_a_timer_cannot_be_assigned_nor_used_outside_a_job() -> None:
    function = Orders()
    with pytest.raises(MainstayError, match=r"Orders.close is a Timer.*self.close.set\(at\)"):
        function.close = 5
    with pytest.raises(MainstayError, match="outside a running job"):
        function.close.set(t(1))
    assert repr(function.rounded) == "Timer('event_time', every='10s')"


# ---------------------------------------------------------------- event time that cannot come


class AdHoc(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        ctx.timers.event_time(row.at) if row.do == "event" else ctx.timers.processing_time(row.at)

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        return ctx.key, ctx.timer, ctx.time_domain, at, ctx.watermark


def without_watermark(env: ms.Environment, function: Any) -> None:
    keyed = stream_of(env, watermark=False).key_by("key")
    keyed.process(function, FIRED, uid="f").sink(SINK, uid="out")


def test_a_declared_event_time_timer_needs_a_watermark() -> None:
    with pytest.raises(GraphError, match=r"operator 'f' \(process\) waits for event time"):
        run(lambda env: without_watermark(env, Orders()), {"in": [("a", "event", t(1))]})


def test_one_that_is_not_declared_needs_it_when_it_is_set() -> None:
    said = r"ctx.timers.event_time\(\) was called where event time never comes"
    with pytest.raises(UserFunctionError, match=said):
        run(lambda env: without_watermark(env, AdHoc()), {"in": [("a", "event", t(1))]})
    result = run(
        lambda env: without_watermark(env, AdHoc()), {"in": [("a", "processing", t(-1e9))]}
    )
    assert [row[2] for row in result.output("out")] == ["processing_time"]


def looped(env: ms.Environment, function: Any) -> None:
    def body(entering: Any) -> tuple[Any, Any]:
        fired = entering.key_by("key").process(function, FIRED, uid="f")
        back = fired.filter(lambda row: False, uid="never").map(
            lambda row: (row.key, "", row.at), ORDER, uid="back"
        )
        return back, fired

    stream_of(env).iterate(body, uid="loop").sink(SINK, uid="out")


def test_within_a_loop_timers_go_by_the_wall_clock_alone() -> None:
    with pytest.raises(GraphError, match=r"waits for event time within the loop"):
        run(lambda env: looped(env, Orders()), {"in": [("a", "event", t(1))]})
    with pytest.raises(UserFunctionError, match=r"it is within a loop"):
        run(lambda env: looped(env, AdHoc()), {"in": [("a", "event", t(1))]})
    result = run(lambda env: looped(env, AdHoc()), {"in": [("a", "processing", t(-1e9))]})
    assert [row[2] for row in result.output("out")] == ["processing_time"]


# ---------------------------------------------------------------- at the call


class Calls(Orders):
    """Does one wrong thing."""

    def __init__(self, what: Any, hook: str = "process") -> None:
        self.what, self.hook = what, hook

    def open(self, ctx: Any) -> None:
        if self.hook == "open":
            self.what(self, ctx)

    def process(self, row: Any, ctx: Any) -> Any:
        self.what(self, ctx)


class Plain(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        ctx.timers.event_time(row.at)


def set_none(self: Any, ctx: Any) -> None:
    self.close.set(None)


def set_text(self: Any, ctx: Any) -> None:
    ctx.timers.event_time("2026-01-01")


def set_number(self: Any, ctx: Any) -> None:
    self.close.set(5)


def ad_hoc(self: Any, ctx: Any) -> None:
    ctx.timers.processing_time(t(1))


def declared(self: Any, ctx: Any) -> None:
    self.ring.get()


def register(self: Any, ctx: Any) -> None:
    self.close.register(t(1))


def compare(self: Any, ctx: Any) -> None:
    assert self.close < t(1)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Plain(), "ctx.timers was used in a function that no timer can call"),
        (Calls(set_none), "state 'close': None is no time; call clear"),
        (Calls(set_text), r"ctx.timers.event_time\(\): '2026-01-01'"),
        (Calls(set_number), "state 'close': 5"),
        (Calls(ad_hoc, "open"), r"ctx.timers.processing_time\(\) was called where there is no key"),
        (Calls(declared, "open"), "timer 'ring' was used where there is no key"),
        (Calls(register), r"a Timer has no 'register'. Write set\(at\).*It has clear, clear_many"),
        (Calls(compare), r"state 'close' is a Timer.*self.close.get\(\).*self.close.set\(at\)"),
    ],
)
def test_a_wrong_call_says_what_to_do(function: Any, said: str) -> None:
    with pytest.raises(MainstayError, match=re.compile(said, re.DOTALL)):
        run(lambda env: build(env, function), {"in": [("a", "", t(1))]})


@pytest.mark.parametrize("row", ["left", "right"])
def test_a_broadcast_row_has_no_key_and_sets_no_timer(row: str) -> None:
    def build(env: ms.Environment) -> None:
        time = ms.Watermark("at")
        left, right = (
            env.source(ms.connectors.Rows(ORDER, []), uid=uid, watermark=time)
            for uid in ("left", "right")
        )
        joined = left.key_by("key").connect(right.broadcast()).process(OfTwo(), FIRED, uid="f")
        joined.sink(SINK, uid="out")

    rows = {"left": [], "right": [], row: [("a", "", t(1))]}
    if row == "left":
        run(build, rows)
    else:
        said = r"was called where there is no key.*broadcast rows have none"
        with pytest.raises(MainstayError, match=re.compile(said, re.DOTALL)):
            run(build, rows)


def test_what_on_timer_raises_names_the_operator_and_the_method() -> None:
    class Failing(Orders):
        def on_timer(self, at: datetime, ctx: Any) -> Any:
            raise ValueError("no")

    with pytest.raises(UserFunctionError, match=r"operator 'f', subtask \d, in on_timer\(\).*no"):
        run(lambda env: build(env, Failing()), {"in": [("a", "event", t(1))]})


def test_the_key_cannot_be_assigned_in_on_timer() -> None:
    class Assigning(Orders):
        def on_timer(self, at: datetime, ctx: Any) -> Any:
            ctx.key = "b"

    with pytest.raises(MainstayError, match=r"ctx.key cannot be assigned"):
        run(lambda env: build(env, Assigning()), {"in": [("a", "event", t(1))]})


class Closing(ms.KeyedProcess):
    """Its timer has the name of a method that functions have."""

    close = ms.Timer("event_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.close.set(row.at)

    def on_timer(self, at: Any, ctx: Any) -> Any:
        return (ctx.timer,)


def test_a_timer_may_have_the_name_of_a_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path))
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    given = ms.connectors.Rows("k long, at timestamp", [(1, at)])
    source = env.source(given, uid="in", watermark=ms.Watermark("at"))
    out = ms.connectors.Memory()
    source.key_by("k").process(Closing(), "timer string", uid="closing").sink(out, uid="out")
    assert env.start("closing").wait(60, progress=False) == "finished"
    assert out.rows() == [("close",)]
    assert "could not close" not in caplog.text
