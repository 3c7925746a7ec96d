"""A job whose functions keep a second account of their timers, and what must hold of it.

Every timer has the number of the row that set it. A function notes it in ordinary states beside the
timer, and emits it once: when the timer fires, is deleted or replaced. So a timer that is lost,
fires twice, early or out of order shows in the function, in the output, or in the last snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.plan.check import check_graph
from mainstay.runtime.operators import timed
from mainstay.runtime.operators.timed import Timed
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.run import replaced
from tests.simulation.ends import BlockingRows, CoarseRows
from tests.simulation.playing import Outcome, Run, small_sizes
from tests.simulation.scenarios import Scenario, drawn
from tests.timers import START, WALL

ROW = "id long, key string, act string, at timestamp, delta long"
EMITTED = "what string, id long"
LATER = 1_000_000
"""What is added to the number of a timer that sets another one when it fires."""
ROW_ACTS = ("event", "event", "event", "close", "close", "processing", "ring")
DELETIONS = ("delete event", "clear close", "delete processing", "clear ring")
ENDS_US: dict[tuple[int, int], int] = {}
"""By attempt and subtask: when its input ended, on the wall clock."""


class Order:
    """That timers fire in the order of time, while nothing else happens."""

    def __init__(self) -> None:
        self.last: tuple[Any, ...] = ()

    def check(self, clock: Any, now: Any, at: datetime) -> None:
        if self.last[:2] == (clock, now):
            assert at >= self.last[2], f"{at} after {self.last[2]}"
        self.last = (clock, now, at)


class Accounted(ms.KeyedProcess):
    events = ms.MapState("timestamp", "long")
    processings = ms.MapState("timestamp", "long")
    closing = ms.ValueState("struct<id:long,at:timestamp>")
    ringing = ms.ValueState("struct<id:long,at:timestamp>")
    close = ms.Timer("event_time")
    ring = ms.Timer("processing_time", every="10ms")

    def __init__(self) -> None:
        self.order = Order()

    def process(self, row: Any, ctx: Any) -> Any:
        self.order.last = ()
        if row.act in DELETIONS:
            yield "row", row.id
            yield from self.delete(row.act.split()[1], ctx)
        else:
            yield from self.set(row.act, row.id, time_of(row.act, row.at, row.delta), ctx)

    def set(self, act: str, number: int, at: datetime, ctx: Any) -> Iterator[tuple[str, int]]:
        if act in ("event", "processing"):
            account = getattr(self, f"{act}s")
            getattr(ctx.timers, f"{act}_time")(at)
            if at in account:
                yield "again", number
            else:
                account.put(at, number)
            return
        account, timer = (self.closing, self.close) if act == "close" else (self.ringing, self.ring)
        before = account.get()
        assert timer.get() == (None if before is None else before.at)
        if before is not None:
            yield "replaced", before.id
        timer.set(at)
        account.update((number, timer.get()))
        assert timer.get() >= at

    def delete(self, what: str, ctx: Any) -> Iterator[tuple[str, int]]:
        if what in ("event", "processing"):
            account = getattr(self, f"{what}s")
            delete = getattr(ctx.timers, f"delete_{what}_time")
            delete(START - timedelta(days=1))  # there is none
            if account:
                at = max(account)
                delete(at)
                yield "deleted", account.pop(at)
            return
        account, timer = (
            (self.closing, self.close) if what == "close" else (self.ringing, self.ring)
        )
        timer.clear()
        if (before := account.get()) is not None:
            account.clear()
            yield "deleted", before.id

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        if ctx.time_domain == "event_time":
            assert ctx.watermark is not None
            assert at <= ctx.watermark
            self.order.check("event", ctx.watermark, at)
        else:
            assert at <= moment(ctx.now_us())
            self.order.check("processing", ctx.now_us(), at)
        number = self.taken(at, ctx)
        yield "fired", number
        if number % 4 == 0 and number < LATER:
            yield from self.set_another(number + LATER, at, ctx)

    def taken(self, at: datetime, ctx: Any) -> int:
        """The number of the timer that fires, which there is just once."""
        if ctx.timer is None:
            account = self.events if ctx.time_domain == "event_time" else self.processings
            assert at in account, f"{ctx.time_domain} of {ctx.key} at {at} is in no account"
            return int(account.pop(at))
        account = {"close": self.closing, "ring": self.ringing}[ctx.timer]
        before = account.get()
        assert before is not None, f"{ctx.timer} of {ctx.key} is in no account"
        assert before.at == at
        account.clear()
        return int(before.id)

    def set_another(self, number: int, at: datetime, ctx: Any) -> Iterator[tuple[str, int]]:
        """Some are for a time that has come already."""
        if ctx.time_domain == "processing_time":
            yield from self.set("processing", number, at + timedelta(milliseconds=5), ctx)
        elif ctx.watermark.year == 9999:
            ctx.timers.event_time(at + timedelta(seconds=3))
            yield "ignored", number
        else:
            yield from self.set("event", number, at + timedelta(seconds=3), ctx)


class AccountedBatches(ms.KeyedBatchProcess):
    """The same with declared timers, in columns."""

    closing = ms.ValueState("struct<id:long,at:timestamp>")
    ringing = ms.ValueState("struct<id:long,at:timestamp>")
    close = ms.Timer("event_time")
    ring = ms.Timer("processing_time", every="10ms")

    def process(self, batch: Any, ctx: Any) -> Any:
        for key, rows in batch.groups():
            for row in rows.to_pylist():
                yield from self.take(key, row)

    def take(self, key: str, row: dict[str, Any]) -> Iterator[tuple[str, int]]:
        act = row["act"].split()[-1]
        is_event = act in ("event", "close")
        account, timer = (self.closing, self.close) if is_event else (self.ringing, self.ring)
        (before,) = account.get_many([key])
        assert timer.get_many([key]) == [None if before is None else before.at]
        if before is not None:
            yield "replaced", before.id
        if row["act"] in DELETIONS:
            yield "row", row["id"]
            timer.clear_many([key])
            account.put_many([key], [None])
            return
        timer.set_many([key], [time_of(act, row["at"], row["delta"])])
        account.put_many([key], [(row["id"], *timer.get_many([key]))])

    def on_timers(self, keys: Any, times: Any, ctx: Any) -> Any:
        account = {"close": self.closing, "ring": self.ringing}[ctx.timer]
        before = account.get_many(keys)
        assert len(set(keys)) == len(keys)
        assert [each and each.at for each in before] == times.to_pylist()
        assert sorted(times.to_pylist()) == times.to_pylist()
        if ctx.time_domain == "event_time":
            assert times.to_pylist()[-1] <= ctx.watermark
        account.put_many(keys, [None] * len(keys))
        return [("fired", each.id) for each in before]


def time_of(act: str, at: datetime, delta: int) -> datetime:
    """Of event time some seconds from the row, of the wall clock soon after the start."""
    if act in ("event", "close"):
        return at + timedelta(seconds=delta)
    return WALL + timedelta(milliseconds=40 * (delta + 3))


def moment(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=time_us)


# ---------------------------------------------------------------- what is played


def timers(seed: int) -> Scenario:
    """Everything that happens to a job, with sources that make watermarks often."""
    scenario = drawn(Scenario.of(seed))
    random = Random(f"timers-{seed}")
    rescales = random.choice([(), (3, 2), (random.randint(1, 5),)])
    return replace(
        scenario,
        mode=random.choice(["exactly_once", "unaligned"]),
        parallelism=1 if rescales == (3, 2) else scenario.parallelism,
        rows=random.randint(40, 160),
        # A sink that is behind lets one slice of timers pass now and then, of very many.
        puts_off=False,
        settings=replace(scenario.settings, rescales=rescales, storage_faults=0, savepoints=0),
    )


def rows_of(scenario: Scenario) -> list[tuple[Any, ...]]:
    random = Random(f"timers-rows-{scenario.seed}")
    keys, found = max(3, scenario.keys), []
    for number in range(scenario.rows):
        at = START + timedelta(seconds=number // scenario.splits + random.randint(-4, 0))
        act = random.choice(ROW_ACTS + DELETIONS)
        delta = random.choice([-3, 0, 1, 2, 5, 30, 200])
        found.append((number, f"k{random.randrange(keys)}", act, at, delta))
    return found


class TimedRun(Run):
    """Stages of the job."""

    is_in_batches = False
    declared: tuple[type[Any], ...] = ()
    """Functions of declared timers alone, one for each stage; without them it is ``Accounted``."""

    def graph(self, parallelism: int) -> tuple[Any, dict[str, Any]]:
        scenario = self.scenario
        env = ms.Environment(
            parallelism=parallelism, max_parallelism=scenario.max_parallelism, mode=scenario.mode
        )
        idle = "20ms" if scenario.seed % 3 == 0 else None
        time = ms.Watermark("at", delay="4s", idle=idle)
        keyed = env.source(self.sources["in"], uid="in", watermark=time).key_by("key")
        if self.is_in_batches:
            fired = keyed.process_batches(AccountedBatches(), EMITTED, uid="f")
        else:
            function = self.declared[0] if self.declared else Accounted
            fired = keyed.process(function(), EMITTED, uid="f")
        # Behind it in its chain, and behind another shuffle.
        moved = fired.map(lambda row: (row.what, row.id), EMITTED, uid="map")
        (moved.rebalance() if scenario.seed % 2 else moved).sink(ms.connectors.Memory(), uid="out")
        graph, sinks = replaced(env.graph(), {}, scenario.make_sink)
        check_graph(graph)
        return graph, sinks


@contextmanager
def small_slices(seed: int) -> Iterator[None]:
    """A few timers at a time, watermarks as often as there can be, and a note of every end."""
    ENDS_US.clear()
    spec, end = ms.Watermark.spec, Timed.before_end

    def often(self: Any, *arguments: Any) -> Any:
        return replace(spec(self, *arguments), every_s=0.005)

    def noted(self: Any) -> Iterator[None]:
        ENDS_US[self.context.attempt, self.context.subtask] = self._ctx.now_us()
        return end(self)

    with (
        patch.object(ms.Watermark, "spec", often),
        patch.object(Timed, "before_end", noted),
        patch.object(timed, "SLICE_TIMERS", (1, 3)[seed % 2]),
    ):
        yield


def play(scenario: Scenario, declared: tuple[type[Any], ...] = ()) -> tuple[Outcome, bool]:
    """Run it to its end, stopped and restored in between where the seed says so; and whether its
    function is one over batches. It may be another one behind the restore: both are ``declared``.
    """
    with small_sizes(scenario), small_slices(scenario.seed):
        for backend in scenario.backends:
            if isinstance(backend, MemoryStoreSettings):
                backend.fresh()
        kind = BlockingRows if scenario.blocking else CoarseRows
        rows = rows_of(scenario)
        run = TimedRun(scenario, {"in": kind(ROW, rows, splits=scenario.splits)}, {"in": rows})
        run.is_in_batches = scenario.seed % 5 == 4 and not declared
        run.declared = declared
        settings, parallelism = scenario.settings, scenario.parallelism
        if settings.stop_at_step is not None:
            run.stage(parallelism, settings)
            run.move(scenario.restores_savepoint and settings.stop_with_savepoint)
            parallelism = scenario.rescaled_to or parallelism
            settings = replace(settings, stop_at_step=None, seed=scenario.seed + 1_000_000)
            run.declared = declared[1:]
            ENDS_US.clear()
        return run.stage(parallelism, settings), run.is_in_batches


def check(outcome: Outcome, is_in_batches: bool, *, is_declared: bool = False) -> None:
    """Every number comes once, or waits for a time that has not come."""
    story = outcome.simulation.story
    rows = outcome.given["in"]
    pending = _pending(outcome, is_in_batches or is_declared)
    emitted = [number for _, number in outcome.output] + list(pending)
    later = {n + LATER for what, n in outcome.output if _sets_another(what, n, is_in_batches)}
    expected = {row[0] for row in rows} | later
    counts = Counter(emitted)
    assert set(counts) == expected, f"{sorted(set(counts) ^ expected)}\n{story()}"
    assert set(counts.values()) <= {1}, f"{counts.most_common(3)}\n{story()}"
    newest = max((attempt for attempt, _ in ENDS_US), default=None)
    ended = [time for (attempt, _), time in ENDS_US.items() if attempt == newest]
    if ended and pending:
        assert min(pending.values()) > moment(min(ended)), story()


def _sets_another(what: str, number: int, is_in_batches: bool) -> bool:
    return what == "fired" and number % 4 == 0 and number < LATER and not is_in_batches


def _pending(outcome: Outcome, is_declared: bool) -> dict[int, datetime]:
    """The numbers of timers of the wall clock that are left, with their times; and nothing else
    is."""
    state, story = outcome.state, outcome.simulation.story
    ringing = {key: each.at for key, each in state("f", "ringing").items()}
    assert state("f", "ring") == ringing, story()
    assert state("f", "close") == state("f", "closing") == {}, story()
    pending = {each.id: each.at for each in state("f", "ringing").values()}
    if is_declared:
        return pending
    left = state("f", "processings")
    kept = {(key, at): True for key, times in left.items() for at in times}
    assert state("f", "processing_timers") == kept, story()
    assert state("f", "event_timers") == state("f", "events") == {}, story()
    return pending | {number: at for times in left.values() for at, number in times.items()}


@contextmanager
def counted_cuts() -> Iterator[list[int]]:
    """How many cuts fell between two slices of timers."""
    found, right = [0], OperatorChain.finish

    def finish(self: Any, **settings: Any) -> None:
        right(self, **settings)
        found[0] += bool(self._under_way)

    with patch.object(OperatorChain, "finish", finish):
        yield found
