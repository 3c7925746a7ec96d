"""Event time: how sources make watermarks, and how tasks put those of their channels together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.runtime.connector import Split
from mainstay.runtime.messages import Attempt, ChannelId, Data, TimeMark
from mainstay.runtime.operators.source import ReadingSplit
from mainstay.runtime.operators.told import ToldTime
from mainstay.runtime.own_states import TOLD
from mainstay.runtime.watermarks import (
    EVERY_S,
    LAST,
    GateClock,
    SourceClock,
    SplitClock,
    WatermarkSpec,
)
from mainstay.state.operator import OperatorList
from mainstay.testing import rows, run
from mainstay.transport.codec import decode, encode

START = datetime(2024, 1, 1, tzinfo=timezone.utc)


def batch(*times_us: int | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(times_us, pa.timestamp("us", "UTC"))], names=["at"])


# ---------------------------------------------------------------- sources


def test_a_source_is_as_far_as_its_slowest_split() -> None:
    clock = SourceClock(WatermarkSpec(0, delay_us=10))
    fast, slow = SplitClock(), SplitClock()
    fast.saw(batch(500, 300), 0)
    assert clock.next([fast, slow], 0.0) is None, "nothing is known of the other split"
    slow.saw(batch(None, 100), 0)
    assert clock.next([fast, slow], 1.0) == TimeMark(90)
    slow.saw(batch(50), 0)
    assert clock.next([fast, slow], 2.0) is None, "time does not go back"
    assert clock.next([fast], 3.0) == TimeMark(490), "a finished split holds nobody back"


def test_a_split_that_ended_before_the_next_watermark_moves_event_time() -> None:
    clock, first, second = SourceClock(WatermarkSpec(0, 0)), SplitClock(), SplitClock()
    assert clock.next([], 0.0) == TimeMark(None, is_idle=True), "no split so far"
    first.saw(batch(100), 0)
    clock.ended(first)
    assert clock.next([], 0.1) == TimeMark(100), "it is not idle, so that others come as far"
    assert clock.next([], 1.0) == TimeMark(100, is_idle=True)
    assert clock.next([second], 2.0) == TimeMark(100), "one that is being read may be older"
    second.saw(batch(90), 0)
    clock.ended(second)
    assert clock.next([], 3.0) == TimeMark(100, is_idle=True), "time does not go back"


def test_a_split_that_ended_is_not_told_while_another_is_read() -> None:
    clock, first, second = SourceClock(WatermarkSpec(0, 0)), SplitClock(), SplitClock()
    first.saw(batch(100), 0)
    clock.ended(first)
    second.saw(batch(50), 0)
    assert clock.next([second], 0.0) == TimeMark(50)
    assert clock.kept(has_splits=True) == TimeMark(50)
    clock.ended(second)
    assert clock.kept(has_splits=False) == TimeMark(100), "a restored source would not know it"
    assert clock.next([], 1.0) == TimeMark(100)


def test_watermarks_are_not_made_for_every_batch() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0)), SplitClock()
    split.saw(batch(1), 0)
    assert clock.next([split], 0.0) == TimeMark(1)
    split.saw(batch(2), 0)
    assert clock.next([split], EVERY_S / 2) is None
    assert clock.deadline([split], EVERY_S / 2) == EVERY_S
    assert clock.next([split], EVERY_S) == TimeMark(2)


def test_an_idle_split_holds_nobody_back_until_it_has_rows_again() -> None:
    clock = SourceClock(WatermarkSpec(0, 0, idle_s=5.0))
    busy, quiet = SplitClock(), SplitClock()
    busy.saw(batch(100), 0)
    quiet.asked(1.0, gave=False)
    quiet.asked(4.0, gave=False)
    assert clock.next([busy, quiet], 5.9) is None
    assert clock.next([busy, quiet], 6.0) == TimeMark(100)
    quiet.asked(7.0, gave=True)
    quiet.saw(batch(150), 0)
    busy.saw(batch(200), 0)
    assert clock.next([busy, quiet], 7.0) == TimeMark(150)
    busy.asked(7.0, gave=False)
    quiet.asked(8.0, gave=False)
    assert clock.next([busy, quiet], 13.0) == TimeMark(150, is_idle=True)


def test_a_split_that_is_held_back_is_not_idle() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0, idle_s=1.0)), SplitClock()
    split.asked(0.0, gave=True)
    split.saw(batch(1), 0)
    assert clock.next([split], 100.0) == TimeMark(1)


def test_a_reader_may_promise_more_than_its_rows_say() -> None:
    clock, split = SourceClock(WatermarkSpec(0, delay_us=50)), SplitClock()
    split.saw(batch(100), 0)
    split.promised_us = 80
    assert clock.next([split], 0.0) == TimeMark(80)


def test_a_source_subtask_without_a_split_holds_nobody_back() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0)), SplitClock()
    assert clock.next([], 0.0) == TimeMark(None, is_idle=True)
    assert clock.next([], 9.0) is None, "nothing new"
    assert clock.next([split], 9.0) == TimeMark(None), "a split that came later counts"
    split.saw(batch(7), 0)
    assert clock.next([split], 10.0) == TimeMark(7)
    assert clock.next([], 11.0) == TimeMark(7, is_idle=True), "it was read to its end"


def test_a_source_that_is_idle_no_more_says_so_at_once() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0)), SplitClock()
    assert clock.next([], 0.0) == TimeMark(None, is_idle=True)
    assert clock.next([split], EVERY_S / 4) == TimeMark(None)
    assert clock.next([], EVERY_S / 2) is None, "to be idle again is not urgent"


# ---------------------------------------------------------------- sources that are restored


class Told:
    """What is needed of an operator's context."""

    def __init__(self, *marks: tuple[int | None, bool]) -> None:
        self.lists = {TOLD.name: OperatorList(TOLD)}
        self.lists[TOLD.name].update(marks)


RESTORED = {
    "nothing": ([], None),
    "the earliest": ([(30, False), (20, False)], 20),
    "one that has told nothing yet": ([(30, False), (None, False)], None),
    "one that is idle": ([(30, False), (20, True), (None, True)], 30),
    "all are idle": ([(30, True), (20, True), (None, True)], 30),
    "idle and never told": ([(None, True)], None),
}


@pytest.mark.parametrize(("marks", "expected"), RESTORED.values(), ids=RESTORED)
def test_a_restored_source_is_where_all_of_its_subtasks_were(marks: Any, expected: Any) -> None:
    assert ToldTime(Told(*marks)).restored_us == expected  # type: ignore[arg-type]


def test_a_restored_source_tells_at_once_what_it_had_told() -> None:
    """Even if it is quiet: what was due by then may be half done."""
    clock, split = SourceClock(WatermarkSpec(0, 0)), SplitClock()
    clock.restore(90)
    assert clock.told == TimeMark(90)
    assert clock.next([split], 0.0) == TimeMark(90)
    split.saw(batch(50), 0)
    assert clock.next([split], 1.0) is None, "time does not go back"
    split.saw(batch(100), 0)
    assert clock.next([split], 2.0) == TimeMark(100)
    assert clock.told == TimeMark(100)


def test_a_restored_source_without_a_split_tells_it_too() -> None:
    clock = SourceClock(WatermarkSpec(0, 0))
    clock.restore(90)
    assert clock.next([], 0.0) == TimeMark(90, is_idle=True)


def test_a_split_knows_its_newest_row_after_a_restore() -> None:
    reading = ReadingSplit(Split("a", 1), time=SplitClock(70, 60))
    restored = ReadingSplit.from_unit(reading.to_unit())
    assert (restored.time.newest_us, restored.time.promised_us) == (70, 60)


def test_a_split_of_an_older_snapshot_has_no_time_yet() -> None:
    old = '{"id": "a", "data": 1, "offset": 3, "skip": 2}'
    restored = ReadingSplit.from_unit(old)
    assert restored.time.newest_us is None
    assert restored.to_unit() == old


# ---------------------------------------------------------------- gates


def test_a_task_is_as_far_as_its_slowest_channel() -> None:
    clock = GateClock(2)
    assert clock.on_watermark(0, TimeMark(10)) is None
    assert clock.on_watermark(1, TimeMark(5)) == TimeMark(5)
    assert clock.on_watermark(0, TimeMark(20)) is None
    assert clock.on_watermark(1, TimeMark(5, is_idle=True)) == TimeMark(20)
    assert clock.on_watermark(1, TimeMark(7)) is None, "time does not go back"
    assert clock.on_watermark(1, TimeMark(30)) is None
    assert clock.on_end(0) == TimeMark(30)


def test_a_task_is_idle_when_all_its_channels_are() -> None:
    clock = GateClock(2)
    clock.on_watermark(0, TimeMark(10, is_idle=True))
    assert clock.on_watermark(1, TimeMark(None, is_idle=True)) == TimeMark(10, is_idle=True)
    assert clock.on_watermark(1, TimeMark(12)) == TimeMark(12)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_which_channel_turns_idle_first_makes_no_difference(order: tuple[int, int]) -> None:
    gate, times = GateClock(2), (10, 20)
    for channel in (0, 1):
        gate.on_watermark(channel, TimeMark(times[channel]))
    for channel in order:
        gate.on_watermark(channel, TimeMark(times[channel], is_idle=True))
    assert gate.current == TimeMark(20, is_idle=True)


def test_an_end_says_nothing_where_nobody_makes_watermarks() -> None:
    clock = GateClock(2)
    assert clock.on_end(0) is None
    assert clock.on_end(1) is None


@pytest.mark.parametrize("watermark", [TimeMark(-5), TimeMark(1 << 60), TimeMark(None, True)])
def test_watermarks_pass_the_wire(watermark: TimeMark) -> None:
    data = Data(Attempt(3), ChannelId(4), 5, watermark, 0)
    assert decode(encode(data), lambda _: pa.schema([])) == data


# ---------------------------------------------------------------- whole jobs


class Observe(ms.KeyedProcess):
    """Says of each row whether it was late, and how far time had come."""

    last = ms.ValueState("timestamp")

    def process(self, row: Any, ctx: Any) -> Any:
        is_late = ctx.watermark is not None and row.at < ctx.watermark
        self.last.update(ctx.watermark)
        yield row.n, is_late, ctx.watermark


def observed(disorder: int, delay: str, seed: int, crashes: int) -> list[tuple[Any, ...]]:
    """Rows whose times run on, but for a swing of as many seconds."""
    times = [START + timedelta(seconds=n - (n * 7919) % (disorder + 1)) for n in range(3000)]
    source = rows("n long, at timestamp", list(enumerate(times)), splits=3)

    def build(env: ms.Environment) -> None:
        (
            env.source(source, uid="in", watermark=ms.Watermark("at", delay=delay))
            .key_by(lambda row: row.n % 7, "long")
            .process(Observe(), "n long, late boolean, watermark timestamp", uid="observe")
            .sink(ms.connectors.Memory(), uid="out")
        )

    return run(build, parallelism=2, seed=seed, crashes=crashes).output("out")


@pytest.mark.parametrize(("seed", "crashes"), [(1, 0), (2, 3), (3, 3)])
def test_no_row_is_late_that_comes_within_the_delay(seed: int, crashes: int) -> None:
    found = observed(10, "10s", seed, crashes)
    assert sorted(n for n, _, _ in found) == list(range(3000))
    assert not any(late for _, late, _ in found)
    assert sum(watermark is not None for _, _, watermark in found) > 300, "time has come on"


def test_a_row_that_comes_after_the_delay_is_late() -> None:
    assert any(late for _, late, _ in observed(200, "1s", 1, 0))


class ByRow(ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        return row.n, ctx.watermark


class ByKey(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        return row.n, ctx.watermark


class ByBatch(ms.KeyedBatchProcess):
    def process(self, batch: Any, ctx: Any) -> Any:
        return [(n, ctx.watermark) for n in batch.batch.column("n").to_pylist()]


class OfTwo(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return row.n, ctx.watermark

    def process_right(self, row: Any, ctx: Any) -> Any:
        return row.n, ctx.watermark


SEEN = "n long, watermark timestamp"

KINDS: dict[str, Callable[[Any], Any]] = {
    "process": lambda stream: stream.process(ByRow(), SEEN, uid="f"),
    "keyed process": lambda stream: stream.key_by("n").process(ByKey(), SEEN, uid="f"),
    "keyed batches": lambda stream: stream.key_by("n").process_batches(ByBatch(), SEEN, uid="f"),
    "two inputs": lambda stream: (
        stream.key_by("n").connect(stream.key_by("n")).process(OfTwo(), SEEN, uid="f")
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_function_sees_how_far_event_time_has_come(kind: str) -> None:
    times = [START + timedelta(seconds=n) for n in range(3000)]

    def build(env: ms.Environment) -> None:
        source = rows("n long, at timestamp", list(enumerate(times)))
        stream = env.source(source, uid="in", watermark=ms.Watermark("at"))
        KINDS[kind](stream).sink(ms.connectors.Memory(), uid="out")

    seen = {watermark for _, watermark in run(build, parallelism=1).output("out")}
    assert len(seen) > 1
    assert max(time for time in seen if time is not None) <= times[-1]


class Endless(ms.connectors.Source):
    """One split that gives all its rows at once and has no end."""

    def __init__(self, times: list[datetime]) -> None:
        self.schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
        self.times = times
        self.bounded = False

    def plan(self, seen: frozenset[str]) -> list[ms.connectors.Split]:
        return [] if "only" in seen else [ms.connectors.Split("only", None)]

    def read(self, split: ms.connectors.Split, offset: Any) -> Any:
        return EndlessReader(self, offset or 0)


class EndlessReader(ms.connectors.SplitReader):
    def __init__(self, source: Endless, position: int) -> None:
        self.source, self.position = source, position

    def poll(self, max_rows: int) -> ms.connectors.Polled:
        end = min(self.position + max_rows, len(self.source.times))
        numbers = pa.array(range(self.position, end), pa.int64())
        times = pa.array(self.source.times[self.position : end], pa.timestamp("us", "UTC"))
        self.position = end
        found = pa.RecordBatch.from_arrays([numbers, times], schema=self.source.schema)
        return ms.connectors.Polled(found if found.num_rows else None, end)


@pytest.mark.parametrize("idle", [None, "1s"])
def test_event_time_moves_on_where_a_source_has_more_subtasks_than_splits(
    idle: str | None, tmp_path: Path
) -> None:
    source = Endless([START + timedelta(seconds=n) for n in range(100)])
    env = ms.Environment(
        spark="embedded", parallelism=3, snapshots=ms.Snapshots(tmp_path, every="1min")
    )
    (
        env.source(source, uid="in", watermark=ms.Watermark("at", idle=idle))
        .key_by(lambda row: row.n % 7, "long")
        .process(Observe(), "n long, late boolean, watermark timestamp", uid="observe")
        .sink(ms.connectors.Memory(), uid="out")
    )
    newest = START + timedelta(seconds=99)
    job = env.start("few-splits")
    try:
        for _ in range(400):
            told = [m.watermark_us for (task, _), m in job.metrics().items() if task != "in"]
            if told and all(time == round(newest.timestamp() * 1e6) for time in told):
                break
            assert job._thread.is_alive()
            job._thread.join(0.05)
        else:
            pytest.fail(f"event time stands still: {job.metrics()}")
    finally:
        job.cancel()


def test_the_column_must_hold_time() -> None:
    env = ms.Environment()
    source = rows("n long", [(1,)])
    with pytest.raises(GraphError, match="'n' is of type long; event time is a timestamp"):
        env.source(source, uid="in", watermark=ms.Watermark("n"))
    with pytest.raises(GraphError, match="there is no column 'when'"):
        env.source(source, uid="in", watermark=ms.Watermark("when"))
    with pytest.raises(GraphError, match="delay='soon' is no duration"):
        ms.Watermark("at", delay="soon")


def test_a_reader_may_say_that_its_split_is_idle() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0)), SplitClock()
    split.promised_us = 5
    assert clock.next([split], 0.0) == TimeMark(5)
    split.is_idle = True
    assert clock.next([split], 1.0) == TimeMark(5, is_idle=True)
    split.is_idle = False
    assert clock.next([split], 1.0) == TimeMark(5)


def test_where_rows_say_nothing_of_event_time_promises_do_at_once() -> None:
    clock, split = SourceClock(WatermarkSpec(0, 0, every_s=0.0, from_rows=False)), SplitClock()
    split.newest_us = 50
    assert clock.next([split], 0.0) is None
    split.promised_us = 5
    assert clock.next([split], 0.0) == TimeMark(5)
    split.promised_us = 6
    assert clock.next([split], 0.0) == TimeMark(6)
    assert clock.deadline([split], 0.0) is None


def test_event_time_is_not_at_its_end_while_an_idle_channel_may_still_have_rows() -> None:
    clock = GateClock(2)
    clock.on_watermark(0, TimeMark(10))
    clock.on_watermark(1, TimeMark(5, is_idle=True))
    assert clock.current == TimeMark(10)
    assert clock.on_watermark(0, LAST) == TimeMark(10, is_idle=True)
    assert clock.on_end(0) is None
    assert clock.on_watermark(1, TimeMark(20)) == TimeMark(20)
    assert clock.on_watermark(1, LAST) == LAST
    assert clock.on_end(1) is None


def test_a_channel_that_is_idle_and_has_told_no_time_keeps_the_end_of_time_away() -> None:
    clock = GateClock(2)
    clock.on_watermark(1, TimeMark(None, is_idle=True))
    assert clock.on_watermark(0, TimeMark(10)) == TimeMark(10)
    assert clock.on_watermark(0, LAST) == TimeMark(10, is_idle=True)
    assert clock.on_end(1) == LAST
