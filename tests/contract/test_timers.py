"""What timers do, on every kind of backend: an input as a list, and what has fired."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.watermarks import END_US
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.timer_handles import microseconds
from mainstay.testing import LAST, Watermark, advance_clock, crash, idle, run, snapshot
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.memory_store import MemoryStoreSettings
from tests.timers import FIRED, ORDER, Orders, build, short, stream_of, t, w

BACKENDS = {
    "heap": HeapSettings(),
    "rocksdb": MemoryRocksSettings(1 << 16),
    "external": MemoryStoreSettings("timers", 1 << 16),
}
Fired = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=BACKENDS)
def fired(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fired:
    """What has fired in a run over a list, in seconds."""
    settings = BACKENDS[request.param]
    if isinstance(settings, MemoryStoreSettings):
        settings.fresh()
    # The package has a function of the name of the module.
    monkeypatch.setattr(
        sys.modules["mainstay.testing.run"],
        "plan_of",
        lambda graph: replace(plan_of(graph), backend=settings),
    )

    def run_over(
        elements: list[Any], function: Any = None, build: Any = build, **settings: Any
    ) -> list[tuple[Any, ...]]:
        result = run(lambda env: build(env, function), {"in": elements}, **settings)
        return [short(each) for each in result.output("out")]

    return run_over


# ---------------------------------------------------------------- event time


def test_a_timer_fires_when_the_watermark_has_come_to_its_time(fired: Fired) -> None:
    elements = [("a", "event", t(5)), Watermark(t(4)), Watermark(t(5)), Watermark(t(9))]
    assert fired(elements) == [("a", "e", 5, 5)]


def test_timers_fire_in_the_order_of_time_whatever_they_are(fired: Fired) -> None:
    elements = [
        ("a", "event", t(7)),
        ("b", "set close", t(5)),
        ("a", "set close", t(6)),
        ("b", "event", t(3)),
        ("c", "event", t(4)),
        Watermark(t(20)),
    ]
    expected = [("b", "e", 3, 20), ("c", "e", 4, 20), ("b", "close", 5, 20)]
    expected += [("a", "close", 6, 20), ("a", "e", 7, 20)]
    assert fired(elements, parallelism=1) == expected


def test_a_timer_that_is_set_twice_fires_once(fired: Fired) -> None:
    elements = [("a", "event", t(5)), ("a", "event", t(5)), Watermark(t(6))]
    assert fired(elements) == [("a", "e", 5, 6)]


def test_keys_and_times_do_not_leak_into_each_other(fired: Fired) -> None:
    elements = [
        ("a", "event", t(5)),
        ("b", "event", t(5)),
        ("a", "event", t(6)),
        ("b", "delete event", t(5)),
        Watermark(t(9)),
    ]
    assert fired(elements) == [("a", "e", 5, 9), ("a", "e", 6, 9)]


def test_a_deleted_timer_does_not_fire_and_others_do(fired: Fired) -> None:
    elements = [
        ("a", "delete event", t(1)),  # there is none
        ("a", "event", t(5)),
        ("a", "event", t(6)),
        ("a", "event", t(7)),
        ("a", "delete event", t(5)),
        ("a", "delete event", t(7)),
        ("a", "delete processing", t(6)),  # of the other clock
        Watermark(t(9)),
    ]
    assert fired(elements) == [("a", "e", 6, 9)]


def test_a_timer_for_the_past_fires_with_the_next_watermark(fired: Fired) -> None:
    elements = [Watermark(t(10)), ("a", "event", t(3)), ("a", "nothing", t(3)), Watermark(t(11))]
    assert fired(elements) == [("a", "e", 3, 11)]


def test_a_declared_timer_is_replaced_and_cleared(fired: Fired) -> None:
    elements = [
        ("a", "set close", t(5)),
        ("a", "set close", t(8)),
        ("b", "set close", t(5)),
        ("b", "clear close", t(0)),
        ("c", "set close", t(5)),
        ("c", "set close", t(2)),
        ("d", "clear close", t(0)),
        Watermark(t(6)),
        Watermark(t(9)),
    ]
    assert sorted(fired(elements)) == [("a", "close", 8, 9), ("c", "close", 2, 6)]


def test_times_are_rounded_up_and_never_down(fired: Fired) -> None:
    elements = [
        ("a", "set rounded", t(11)),
        ("b", "set rounded", t(20)),
        ("c", "set rounded", t(20.000001)),
        Watermark(t(20)),
        Watermark(t(29.999999)),
        Watermark(t(30)),
    ]
    found = fired(elements, parallelism=1)
    assert found == [("a", "rounded", 20, 20), ("b", "rounded", 20, 20), ("c", "rounded", 30, 30)]


def test_a_time_has_the_zone_that_is_given_or_utc(fired: Fired) -> None:
    class Zones(Orders):
        def process(self, row: Any, ctx: Any) -> Any:
            ctx.timers.event_time(datetime(2026, 1, 1, 0, 0, 5))
            self.close.set(t(6).astimezone(timezone(timedelta(hours=2))))
            assert self.close.get() == t(6)
            assert self.close.get().tzinfo is timezone.utc

    found = fired([("a", "nothing", t(0)), Watermark(t(9))], Zones())
    assert found == [("a", "e", 5, 9), ("a", "close", 6, 9)]


def test_all_that_is_left_fires_at_the_end_of_input(fired: Fired) -> None:
    elements = [("a", "event", t(5)), ("b", "set close", t(1e9)), Watermark(t(1))]
    assert sorted(fired(elements)) == [("a", "e", 5, "end"), ("b", "close", 1e9, "end")]


class Periodic(Orders):
    """Every ten seconds."""

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield from super().on_timer(at, ctx)
        ctx.timers.event_time(at + timedelta(seconds=10))


def test_a_periodic_timer_catches_up_step_by_step_in_the_order_of_time(fired: Fired) -> None:
    elements = [("a", "event", t(10)), ("b", "event", t(15)), Watermark(t(31)), Watermark(t(40))]
    found = fired([*elements, LAST], Periodic(), parallelism=1)
    first = [("a", "e", 10, 31), ("b", "e", 15, 31), ("a", "e", 20, 31), ("b", "e", 25, 31)]
    assert found[:5] == [*first, ("a", "e", 30, 31)]
    assert found[5:] == [
        ("b", "e", 35, 40),
        ("a", "e", 40, 40),
        ("b", "e", 45, "end"),
        ("a", "e", 50, "end"),
    ]


def test_what_is_set_at_the_end_of_time_is_ignored_and_told(
    fired: Fired, caplog: pytest.LogCaptureFixture
) -> None:
    found = fired([("a", "event", t(10)), ("b", "event", t(10))], Periodic(), parallelism=1)
    assert found == [("a", "e", 10, "end"), ("b", "e", 10, "end")]
    told = [each.getMessage() for each in caplog.records if each.name == "mainstay.timers"]
    assert len(told) == 1
    assert "operator 'f': 2 event-time timers were set" in told[0]


class Again(Orders):
    """Sets a timer for its own time, once."""

    was = ms.ValueState("boolean")

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield from super().on_timer(at, ctx)
        if not self.was.get():
            self.was.update(True)
            assert self.close.get() is None
            ctx.timers.event_time(at)
            self.close.set(at)


def test_a_timer_is_gone_before_it_fires_and_may_be_set_again(fired: Fired) -> None:
    elements = [("a", "set close", t(5)), Watermark(t(6))]
    assert fired(elements, Again()) == [
        ("a", "close", 5, 6),
        ("a", "close", 5, 6),
        ("a", "e", 5, 6),
    ]


class Deleting(Orders):
    """The first that fires deletes what else is due."""

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield from super().on_timer(at, ctx)
        ctx.timers.delete_event_time(t(6))
        self.close.clear()


def test_a_timer_may_delete_others_that_are_due(fired: Fired) -> None:
    elements = [("a", "event", t(n)) for n in (5, 6, 7)]
    elements += [("a", "set close", t(6)), ("b", "event", t(6))]
    found = fired([*elements, Watermark(t(9))], Deleting())
    assert sorted(found) == [("a", "e", 5, 9), ("a", "e", 7, 9), ("b", "e", 6, 9)]


class Counting(ms.KeyedProcess):
    n = ms.ValueState("long")
    close = ms.Timer("event_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        self.close.set(row.at)

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        assert self.close.get() is None
        found = self.n.get()
        self.n.clear()
        return ctx.key, str(found), ctx.time_domain, at, ctx.watermark


def test_a_timer_sees_the_state_of_its_key(fired: Fired) -> None:
    elements = [("a", "", t(5)), ("b", "", t(6)), ("a", "", t(4)), Watermark(t(7)), ("a", "", t(8))]
    found = fired([*elements, Watermark(t(8))], Counting())
    assert found == [("a", "2", 4, 7), ("b", "1", 6, 7), ("a", "1", 8, 8)]


def test_results_go_out_before_the_watermark_that_brought_them() -> None:
    elements = [("a", "event", t(5)), ("a", "event", t(6)), Watermark(t(5)), Watermark(t(6))]
    result = run(build, {"in": elements}, parallelism=1)
    found = [each if isinstance(each, Watermark) else each[3] for each in result.elements("f")]
    assert found == [t(5), Watermark(t(5)), t(6), Watermark(t(6)), LAST]


class Aside(Orders):
    """Emits into a side output when it is called and when a timer fires."""

    notes = ms.SideOutput("key string, what string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.obey(row.do, row.at, ctx)
        self.notes.emit((ctx.key, "row"))

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        self.notes.emit((ctx.key, "timer"))
        return super().on_timer(at, ctx)


def test_a_timer_emits_into_side_outputs() -> None:
    elements = [("a", "event", t(5)), Watermark(t(5)), ("b", "nothing", t(5))]
    result = run(lambda env: build(env, Aside()), {"in": elements}, parallelism=1)
    assert result.side("f", "notes") == [("a", "row"), ("a", "timer"), ("b", "row")]
    assert len(result.output("out")) == 1


# ---------------------------------------------------------------- processing time


def test_a_timer_fires_when_the_wall_clock_has_come_to_its_time(fired: Fired) -> None:
    elements = [
        ("a", "processing", w(5)),
        advance_clock("4s"),
        ("b", "set ring", w(6)),
        advance_clock("1s"),
        ("a", "nothing", t(0)),
        advance_clock("3s"),
    ]
    assert fired(elements) == [("a", "p", 5, None), ("b", "ring", 6, None)]


def test_an_earlier_timer_of_the_wall_clock_comes_first(fired: Fired) -> None:
    elements = [
        ("a", "processing", w(50)),
        ("a", "processing", w(10)),
        advance_clock("20s"),
        ("a", "processing", w(30)),
        advance_clock("100s"),
    ]
    assert fired(elements) == [("a", "p", 10, None), ("a", "p", 30, None), ("a", "p", 50, None)]


def test_a_timer_of_the_wall_clock_for_the_past_fires_at_once(fired: Fired) -> None:
    elements = [advance_clock("1min"), ("a", "processing", w(5)), ("b", "event", t(1))]
    assert fired([*elements, Watermark(t(1))]) == [("a", "p", 5, None), ("b", "e", 1, 1)]


def test_timers_of_both_clocks_for_one_time_fire_once_each(fired: Fired) -> None:
    elements = [
        ("a", "event", w(5)),
        ("a", "processing", w(5)),
        advance_clock("5s"),
        Watermark(w(5)),
    ]
    both = [(key, timer) for key, timer, *_ in fired(elements)]
    assert both == [("a", "p"), ("a", "e")]


def test_a_timer_of_the_wall_clock_may_be_deleted(fired: Fired) -> None:
    elements = [
        ("a", "processing", w(5)),
        ("b", "processing", w(5)),
        ("a", "set ring", w(5)),
        ("a", "delete processing", w(5)),
        ("a", "clear ring", w(5)),
        ("a", "delete event", w(5)),
        advance_clock("9s"),
    ]
    assert fired(elements) == [("b", "p", 5, None)]


class Clocked(ms.KeyedProcess):
    """Says by the clock of its timers when a row came, and rings three seconds later."""

    def process(self, row: Any, ctx: Any) -> Any:
        ctx.timers.processing_time(ctx.now() + timedelta(seconds=3))
        return ctx.key, f"came {ctx.now() - w(0)}"

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        return ctx.key, f"rang {at - w(0)} at {ctx.now() - w(0)}"


def test_a_function_reads_the_clock_that_its_timers_go_by() -> None:
    def clocked(env: ms.Environment) -> None:
        given = env.source(ms.connectors.Rows("key string", [("a",)]), uid="in").key_by("key")
        given.process(Clocked(), "key string, what string", uid="f").sink(
            ms.connectors.Memory(), uid="out"
        )

    elements = [("a",), advance_clock("2s"), ("b",), advance_clock("4s")]
    result = run(clocked, {"in": elements}, parallelism=1)
    assert result.output("out") == [
        ("a", "came 0:00:00"),
        ("b", "came 0:00:02"),
        ("a", "rang 0:00:03 at 0:00:06"),
        ("b", "rang 0:00:05 at 0:00:06"),
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_what_waits_for_the_wall_clock_at_the_end_stays_in_the_state(ends: bool) -> None:
    elements = [("a", "processing", w(5)), ("b", "set ring", w(6)), snapshot()]
    result = run(build, {"in": elements}, ends=ends)
    assert result.output("out") == []
    assert result.state("f", "processing_timers") == {("a", w(5)): True}
    assert result.state("f", "ring") == {"b": w(6)}


class Ticking(Orders):
    """Every second of the wall clock."""

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield from super().on_timer(at, ctx)
        self.ring.set(at + timedelta(seconds=1))


def test_a_periodic_timer_of_the_wall_clock_catches_up(fired: Fired) -> None:
    elements = [("a", "set ring", w(1)), advance_clock("3s"), advance_clock("1s")]
    assert [at for _, _, at, _ in fired(elements, Ticking(), ends=False)] == [1, 2, 3, 4]


# ---------------------------------------------------------------- snapshots


def test_what_is_pending_in_a_snapshot_fires_after_a_restore(fired: Fired) -> None:
    elements = [
        ("a", "event", t(5)),
        ("a", "set close", t(6)),
        ("b", "processing", w(5)),
        ("b", "set ring", w(6)),
        snapshot(),
        crash(),
        Watermark(t(9)),
        advance_clock("9s"),
    ]
    expected = [("a", "close", 6, 9), ("a", "e", 5, 9), ("b", "p", 5, None), ("b", "ring", 6, None)]
    found = [(*each[:3], each[3] if each[0] == "a" else None) for each in fired(elements)]
    assert sorted(found) == expected


def test_what_has_fired_or_was_deleted_before_a_snapshot_does_not_fire_after_it(
    fired: Fired,
) -> None:
    elements = [
        ("a", "event", t(5)),
        ("a", "event", t(8)),
        ("a", "set close", t(5)),
        ("b", "event", t(9)),
        ("b", "set close", t(9)),
        Watermark(t(6)),
        ("b", "delete event", t(9)),
        ("b", "set close", t(10)),
        snapshot(),
        crash(),
        Watermark(t(20)),
    ]
    found = [("a", "close", 5, 6), ("a", "e", 5, 6), ("a", "e", 8, 20), ("b", "close", 10, 20)]
    assert sorted(fired(elements)) == found


class Keeping(Orders):
    """Rows are told, too."""

    def process(self, row: Any, ctx: Any) -> Any:
        self.obey(row.do, row.at, ctx)
        yield ctx.key, "row", "event_time", row.at, ctx.watermark


def test_overdue_timers_of_the_wall_clock_fire_before_rows_after_a_restore(fired: Fired) -> None:
    elements = [
        ("a", "processing", w(5)),
        ("a", "processing", w(3)),
        snapshot(),
        crash(),
        advance_clock("1min"),
        ("b", "nothing", t(0)),
    ]
    names = [(key, timer, at) for key, timer, at, _ in fired(elements, Keeping(), parallelism=1)]
    rows = [("a", "row", (w(n) - t(0)).total_seconds()) for n in (5, 3)]
    assert names == [*rows, ("a", "p", 3), ("a", "p", 5), ("b", "row", 0)]


def test_a_restored_function_knows_how_far_event_time_had_come(fired: Fired) -> None:
    elements = [Watermark(t(5)), snapshot(), crash(), ("a", "nothing", t(1))]
    assert fired(elements, Keeping()) == [("a", "row", 1, 5)]


def test_an_idle_input_holds_no_timer_up(fired: Fired) -> None:
    elements = [("a", "event", t(5)), Watermark(t(5)), idle(), ("a", "event", t(4))]
    assert [each[:3] for each in fired(elements)] == [("a", "e", 5), ("a", "e", 4)]


# ---------------------------------------------------------------- two inputs, and batches


class Joined(ms.CoKeyedProcess):
    """The left sets, the right clears."""

    close = ms.Timer("event_time")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.close.set(row.at)
        ctx.timers.event_time(row.at)

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.close.clear()

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        return ctx.key, ctx.timer, ctx.time_domain, at, ctx.watermark


def build_joined(env: ms.Environment) -> None:
    left = stream_of(env).key_by("key")
    right = env.source(ms.connectors.Rows(ORDER, []), uid="right", watermark=ms.Watermark("at"))
    joined = left.connect(right.key_by("key")).process(Joined(), FIRED, uid="f")
    joined.sink(ms.connectors.Memory(), uid="out")


def test_both_inputs_share_the_timers_of_a_key() -> None:
    elements = [
        ("in", ("a", "", t(5))),
        ("in", ("b", "", t(6))),
        ("right", ("a", "", t(0))),
        ("in", Watermark(t(9))),
        ("right", Watermark(t(7))),
    ]
    result = run(build_joined, elements)
    found = sorted(map(short, result.output("out")), key=str)
    assert found == [("a", "e", 5, 7), ("b", "close", 6, 7), ("b", "e", 6, 7)]


class Batches(ms.KeyedBatchProcess):
    """One timer of each clock for a key."""

    close = ms.Timer("event_time")
    ring = ms.Timer("processing_time")

    def process(self, batch: Any, ctx: Any) -> Any:
        for key, rows in batch.groups():
            for do, at in zip(*map(rows.column, ("do", "at")), strict=True):
                timer = getattr(self, do.as_py().split()[-1])
                if do.as_py().startswith("clear"):
                    timer.clear_many([key])
                else:
                    timer.set_many([key], [at.as_py()])
                    assert timer.get_many([key, "nobody"]) == [at.as_py(), None]

    def on_timers(self, keys: Any, times: Any, ctx: Any) -> Any:
        assert self.close.get_many(keys) == [None] * len(keys) or ctx.timer == "ring"
        for key, at in zip(keys, times.to_pylist(), strict=True):
            yield key, ctx.timer, ctx.time_domain, at, ctx.watermark


def build_batches(env: ms.Environment, function: Any = None) -> None:
    keyed = stream_of(env).key_by("key")
    fired = keyed.process_batches(function or Batches(), FIRED, uid="f")
    fired.sink(ms.connectors.Memory(), uid="out")


def test_a_function_over_batches_has_its_timers_in_columns(fired: Fired) -> None:
    elements = [
        ("a", "set close", t(9)),
        ("a", "set close", t(6)),
        ("b", "set close", t(5)),
        ("c", "set close", t(7)),
        ("c", "clear close", t(7)),
        ("d", "set ring", w(3)),
        snapshot(),
        crash(),
        Watermark(t(6)),
        ("b", "set close", t(8)),
        advance_clock("3s"),
    ]
    found = fired(elements, build=build_batches, parallelism=1)
    assert found[:3] == [("b", "close", 5, 6), ("a", "close", 6, 6), ("d", "ring", 3, 6)]
    assert found[3:] == [("b", "close", 8, "end")]


class Catching(Batches):
    """Every ten seconds, in columns."""

    def on_timers(self, keys: Any, times: Any, ctx: Any) -> Any:
        fired = list(super().on_timers(keys, times, ctx))
        later = [at + timedelta(seconds=10) for at in times.to_pylist()]
        # The last of a key counts.
        self.close.set_many([*keys, *keys], [*times.to_pylist(), *later])
        return fired


def test_timers_that_are_set_by_on_timers_fire_in_the_same_pass() -> None:
    elements = [("a", "set close", t(10)), ("b", "set close", t(15)), Watermark(t(36))]
    result = run(lambda env: build_batches(env, Catching()), {"in": elements}, parallelism=1)
    by_key: dict[str, list[float]] = {"a": [], "b": []}
    for key, _, at, watermark in map(short, result.output("out")):
        by_key[key].append(at)
        assert watermark == (36 if at <= 36 else "end")
    assert by_key == {"a": [10, 20, 30, 40], "b": [15, 25, 35, 45]}


def test_timers_may_be_set_for_the_last_moment_there_is(fired: Fired) -> None:
    latest = datetime.max.replace(tzinfo=timezone.utc)
    assert microseconds(latest) == END_US
    elements = [("a", "event", latest), ("a", "set rounded", latest), Watermark(t(5))]
    found = fired(elements)
    assert [(key, timer) for key, timer, *_ in found] == [("a", "rounded"), ("a", "e")]
