"""An operator with timers, by itself: slices by the clock, deadlines, what it counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.api.checks import checked_states
from mainstay.runtime.messages import TimeMark
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.make import Make
from mainstay.runtime.operators.timed import OVERDUE_S, TimedKeyedRows
from mainstay.runtime.spec import KeySpec, OperatorSpec
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.member import Member
from mainstay.schema import to_schema
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.keygroups import range_of
from mainstay.state.subtask import Owner
from mainstay.state.values import ValueType

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROW = to_schema("key long, at timestamp")
OUT = to_schema("key long")


class FakeClock:
    """Moves when a timer fires."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return START.timestamp() + self.now - 1_000.0

    cpu = monotonic


class Slow(ms.KeyedProcess):
    clock: Any = None
    takes_s = 1 / 1024

    def process(self, row: Any, ctx: Any) -> Any:
        ctx.timers.event_time(row.at)
        ctx.timers.processing_time(row.at)

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        self.clock.now += self.takes_s
        return (ctx.key,)


class Alone:
    """The operator with a backend of its own."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        function = Slow()
        function.clock = self.clock
        states = checked_states(function, "f", keyed_allowed=True)
        key = KeySpec((0,), ValueType.of("long"), ("key",))
        factory = Make(TimedKeyedRows, (True, function, key, ROW, OUT))
        spec = OperatorSpec("f", "process", factory, states, key)
        groups = range_of(0, 1, 16)
        self.member = Member(spec, Owner("f", 0, 1, groups, 16, "l"), 1, HeapSettings(), self.clock)
        self.operator: Any = self.member.operator
        self.emitted: list[int] = []
        self.operator.out = lambda batch: self.emitted.extend(batch.column(0).to_pylist())
        assert self.member.keyed is not None
        self.operator.open(
            OperatorContext(
                *("f", 0, 1, 1, "l", self.clock, None, None, self.member.row_context),
                self.member.keyed.backend,
                self.member.lists,
                None,
                groups,
                16,
            )
        )

    def take(self, *rows: tuple[int, float]) -> None:
        times = [START + timedelta(seconds=at) for _, at in rows]
        batch = pa.record_batch([[key for key, _ in rows], pa.array(times, ROW.types[1])], ROW)
        self.operator.process(batch, 0)

    def slices(self, steps: Iterator[None]) -> list[int]:
        """How many rows each slice has emitted."""
        counts, before = [], len(self.emitted)
        for _ in steps:
            counts.append(len(self.emitted) - before)
            before = len(self.emitted)
        return counts


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    # Times that add up exactly.
    monkeypatch.setattr("mainstay.runtime.operators.timed.SLICE_S", 3 * Slow.takes_s)
    return Alone()


def watermark(seconds: float) -> TimeMark:
    return TimeMark(int((START.timestamp() + seconds) * 1_000_000))


def test_a_slice_of_timers_ends_with_its_time(alone: Alone) -> None:
    alone.take(*((key, 1) for key in range(10)), (99, 2))
    assert alone.slices(alone.operator.on_watermark(watermark(1))) == [3, 3, 3, 1]
    assert sorted(alone.emitted) == list(range(10))
    assert alone.operator.may_be_cut


def test_a_slow_timer_has_a_slice_of_its_own(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slow, "takes_s", 1.0)
    alone.take((1, 1), (2, 1))
    assert alone.slices(alone.operator.on_watermark(watermark(1))) == [1, 1]


def test_between_slices_the_state_says_what_is_left(alone: Alone) -> None:
    alone.take(*((key, key) for key in range(7)))
    steps = alone.operator.on_watermark(watermark(50))
    seen = []
    for _ in steps:
        kept = [key for (key, _), _ in alone.member.keyed.backend.entries("event_timers")]  # type: ignore[union-attr]
        seen.append(sorted([*alone.emitted, *kept]))
    assert seen == [list(range(7))] * 3


def test_quick_timers_end_a_slice_by_their_number(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slow, "takes_s", 0.0)
    monkeypatch.setattr("mainstay.runtime.operators.timed.SLICE_TIMERS", 4)
    alone.take(*((key, 1) for key in range(10)))
    assert alone.slices(alone.operator.on_watermark(LAST)) == [4, 4, 2]


def test_it_asks_to_be_called_when_the_first_is_due(alone: Alone) -> None:
    assert alone.operator.deadline() is None
    alone.take((1, 30), (2, 20))
    assert alone.operator.deadline() == pytest.approx(1_020.0)
    assert not alone.operator.is_due()
    alone.clock.now += 20
    assert alone.operator.is_due()
    # If it could not be called, soon again, and not at once: that would keep the worker busy.
    assert alone.operator.deadline() == pytest.approx(1_020.0 + OVERDUE_S)
    assert alone.slices(alone.operator.on_clock()) == [1]
    assert alone.operator.deadline() == pytest.approx(1_030.0, abs=0.01)
    alone.operator.end_of_input()
    assert alone.operator.deadline() is None


def test_it_counts_what_it_holds_and_what_has_fired(alone: Alone) -> None:
    alone.take((1, 30), (1, 30), (2, 20))
    assert (alone.operator.timers.held, alone.operator.timers.fired) == (4, 0)
    alone.slices(alone.operator.on_watermark(watermark(25)))
    assert (alone.operator.timers.held, alone.operator.timers.fired) == (3, 1)


def test_the_end_of_time_does_not_make_later_rows_late(alone: Alone) -> None:
    alone.slices(alone.operator.on_watermark(watermark(5)))
    alone.slices(alone.operator.on_watermark(LAST))
    alone.operator.before_marker(1)
    (run,) = alone.member.lists["fired_times"].get()
    assert run.time_us == watermark(5).time_us
