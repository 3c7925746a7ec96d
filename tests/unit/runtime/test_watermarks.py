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
from mainstay.runtime.messages import Attempt, ChannelId, Data, TimeMark
from mainstay.runtime.watermarks import EVERY_S, GateClock, SourceClock, SplitClock, WatermarkSpec
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
