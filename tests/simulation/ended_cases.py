"""Jobs that go by event time whose input ends more than once: they are drained, or finish, and are
started again with the rest and with more.

Every row goes out as it was read, too. So it is known which rows came before an end, wherever that
was: in an epoch, both are there or neither is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.plan.check import check_graph
from mainstay.runtime.joins import Interval
from mainstay.runtime.operators import session, window
from mainstay.runtime.operators.patterns import in_time, match
from mainstay.runtime.status import Status
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from tests.simulation import ended_models as models
from tests.simulation.ended_models import NEVER, SECOND, Given, Row, taken
from tests.simulation.ends import CoarseRows
from tests.simulation.playing import Outcome, Run, small_sizes
from tests.simulation.scenarios import Scenario, drawn
from tests.times import DAY

ROW = "id long, key string, at timestamp"
OUT = "what string, key string, a long, b long, c long"
DISORDER_S, DELAY = 4, "5s"
MOST_STOPS = 3
MOST_STAGES = 10
"""A job that is drained before it has read anything would be so at every start, for ever."""
DAY_US = round(DAY.timestamp()) * SECOND


# ---------------------------------------------------------------- jobs


def out(stream: Any, what: str, *columns: Any, uid: str) -> Any:
    """Rows of the one output: what they are, their key, and up to three numbers."""

    def made(row: Any) -> tuple[Any, ...]:
        numbers = [column(row) if callable(column) else getattr(row, column) for column in columns]
        return (what, row.key, *(each or 0 for each in numbers), *[0] * (3 - len(numbers)))

    return stream.map(made, OUT, uid=uid)


def us(name: str) -> Callable[[Any], int]:
    """A time of a row in microseconds."""
    return lambda row: round(getattr(row, name).timestamp() * SECOND)


def late_rows(stream: Any, uid: str) -> Any:
    return out(stream, "late", "id", uid=uid)


def windowed(spec: Any, **how: Any) -> Any:
    def build(left: Any) -> list[Any]:
        found = left.key_by("key").window(spec, **how).aggregate(ids=ms.sum("id"), uid="f")
        bounds = (us("window_start"), us("window_end"))
        return [out(found, "window", *bounds, "ids", uid="found"), late_rows(found.late, "late")]

    return build


def joined(**how: Any) -> Any:
    def build(left: Any, right: Any) -> list[Any]:
        right = right.rename(id="other", at="seen")
        found = left.key_by("key").join(right.key_by("key"), uid="f", **how)
        end = [us("window_end")] if "window" in how else []
        lates = found.late_right.rename(other="id")
        return [
            out(found, "pair", "id", "other", *end, uid="found"),
            late_rows(found.late_left, "late-left"),
            late_rows(lates, "late-right"),
        ]

    return build


class Ringing(ms.KeyedProcess):
    """Sets a timer for each row, and knows which ones are set."""

    ids = ms.MapState("timestamp", "array<long>")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.put(row.at, [*(self.ids.get(row.at) or ()), row.id])
        ctx.timers.event_time(row.at)

    def on_timer(self, at: Any, ctx: Any) -> Any:
        assert ctx.watermark >= at
        ids = self.ids.get(at)
        assert ids, f"the timer at {at} of {ctx.key} has fired before"
        self.ids.remove(at)
        for each in ids:
            yield "fired", ctx.key, each, 0, 0


def timed(left: Any) -> list[Any]:
    return [left.key_by("key").process(Ringing(), OUT, uid="f")]


PATTERN = ms.pattern("a", lambda row: row.id % 2 == 0)
PATTERN = PATTERN.followed_by("b", lambda row: row.id % 2 == 1).within("6s")


def matching(left: Any) -> list[Any]:
    found = left.key_by("key").match(
        PATTERN, lambda m: ("match", m.key, m.a.id, m.b.id, 0), OUT, skip="none", uid="f"
    )
    over = out(found.timed_out, "open", lambda row: row.a.id, uid="over")
    return [found, over, late_rows(found.late, "late")]


@dataclass(frozen=True)
class Job:
    """A job, what it has to give, and the states that are empty when its input has ended."""

    build: Callable[..., list[Any]]
    model: Callable[..., Given]
    states: tuple[str, ...]
    inputs: tuple[str, ...] = ("left",)


SLIDING = ms.sliding("9s", every="3s")
NEAR = ms.interval("-4s", "4s")
JOBS = {
    "windows": Job(
        windowed(SLIDING, lateness="2s"),
        partial(models.windows, SLIDING.fixed(), 2 * SECOND),
        ("panes",),
    ),
    "sessions": Job(
        windowed(ms.session("3s")), partial(models.sessions, 3 * SECOND), ("sessions",)
    ),
    "window join": Job(
        joined(window=ms.tumbling("7s"), how="left"),
        partial(models.window_join, 7 * SECOND),
        ("left", "right"),
        ("left", "right"),
    ),
    "interval join": Job(
        joined(within=NEAR, how="full"),
        partial(models.interval_join, Interval(-4 * SECOND, 4 * SECOND)),
        ("left", "right"),
        ("left", "right"),
    ),
    "timers": Job(timed, models.timers, ("ids", "event_timers")),
    "patterns": Job(matching, partial(models.matches, PATTERN), ("partial", "waiting", "due")),
}


# ---------------------------------------------------------------- what is played


def ending(seed: int) -> Scenario:
    """Everything that happens to a job, in two or three starts, at any parallelism."""
    random = Random(f"ending-{seed}")
    scenario = drawn(Scenario.of(seed))
    return replace(
        scenario,
        mode=random.choice(["exactly_once", "unaligned"]),
        starts=random.randint(2, 3),
        rows=random.randint(60, 110),
        splits=1,
        puts_off=False,
        settings=replace(
            scenario.settings,
            storage_faults=0,
            savepoints=0,
            rescales=(),
            crashes=random.choice([0, 1, 2]),
            stop_with_savepoint=False,
        ),
    )


def rows_of(scenario: Scenario, input: str, first_id: int) -> list[Row]:
    """Rows whose times rise, but for less than the delay. Most are of the first keys."""
    random = Random(f"ending-rows-{scenario.seed}-{input}")
    found, now = [], 0.0
    for number in range(scenario.rows):
        # A pause now and then: what is open then has its end in it.
        now += random.choice([0, 0.25, 0.5, 0.5, 1, 6])
        at_us = DAY_US + round((now - random.uniform(0, DISORDER_S)) * 4) * SECOND // 4
        key = f"k{random.choice([0, 0, 0, 1, 1, 2, 3, 4])}"
        found.append(Row(input, first_id + number, key, at_us))
    return found


class EndingRun(Run):
    """Stages of one of the jobs."""

    job: Job

    def graph(self, parallelism: int) -> tuple[Any, dict[str, Any]]:
        scenario = self.scenario
        env = ms.Environment(
            parallelism=parallelism, max_parallelism=scenario.max_parallelism, mode=scenario.mode
        )
        time = ms.Watermark("at", delay=DELAY)
        inputs = {
            name: env.source(self.sources[name], uid=name, watermark=time)
            for name in self.job.inputs
        }
        seen = [out(each, "seen", "id", uid=f"seen-{name}") for name, each in inputs.items()]
        first, *rest = [*self.job.build(*inputs.values()), *seen]
        first.union(*rest).sink(ms.connectors.Memory(), uid="out")
        graph, sinks = replaced(env.graph(), {}, scenario.make_sink)
        check_graph(graph)
        return graph, sinks


@contextmanager
def little_at_a_time(scenario: Scenario) -> Iterator[None]:
    """So that markers come between, and watermarks are made while there are rows."""
    with ExitStack() as stack:
        stack.enter_context(small_sizes(scenario))
        stack.enter_context(patch("mainstay.runtime.watermarks.EVERY_S", 0.0))
        for module, name, value in (
            (window, "EMITTED_ROWS", 1),
            (session, "EMITTED_ROWS", 1),
            (in_time, "SLICE_ROWS", 3),
            (match, "SLICE_KEYS", 1),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


@dataclass(frozen=True)
class Ended:
    """What was put out between two ends of the input, and what should have been."""

    found: Counter[Any]
    wanted: Counter[Any]
    outcome: Outcome


def play(name: str, scenario: Scenario) -> Iterator[Ended]:
    """Run a job through all its ends."""
    job = JOBS[name]
    rows = {
        input: rows_of(scenario, input, 1000 * n) for n, input in enumerate(job.inputs, start=1)
    }
    every = [row for given in rows.values() for row in given]
    with little_at_a_time(scenario):
        for backend in scenario.backends:
            if isinstance(backend, MemoryStoreSettings):
                backend.fresh()
        before: Counter[Any] = Counter()
        ended = NEVER
        for outcome, has_ended in _stages(job, scenario, rows):
            if not has_ended:
                continue
            new = Counter(outcome.output) - before
            before = Counter(outcome.output)
            seen = {each: count for each, count in new.items() if each[0] == "seen"}
            assert set(seen.values()) <= {1}, f"rows were read twice\n{outcome.simulation.story()}"
            since = taken((id for _, _, id, *_ in seen), every)
            wanted, ended = job.model(since, ended)
            yield Ended(new - Counter(seen), wanted, outcome)
        read = {each[2] for each in before if each[0] == "seen"}
        assert read == {row.id for row in every}, f"rows were not read: {outcome.output}"


def _stages(
    job: Job, scenario: Scenario, rows: dict[str, list[Row]]
) -> Iterator[tuple[Outcome, bool]]:
    """What each stage came to, and whether the input had ended: it was read, or drained."""
    random = Random(f"ending-stages-{scenario.seed}")
    run, start, stops = EndingRun(scenario, {}, rows), 1, 0
    run.job = job
    while start <= scenario.starts:
        cut = start * scenario.rows // scenario.starts
        run.sources = {
            input: CoarseRows(ROW, [_as_row(row) for row in given[:cut]])
            for input, given in rows.items()
        }
        settings = replace(scenario.settings, seed=scenario.seed + 1_000_000 * run.stages)
        if stops < MOST_STOPS and random.random() < 0.6:
            stops += 1
            settings = _stopped(settings, random)
        if run.stages >= MOST_STAGES:
            settings = replace(settings, stop_at_step=None)
        outcome = run.stage(random.randint(1, 4), settings)
        is_finished = outcome.simulation.coordinator.status is Status.FINISHED
        start += is_finished
        yield outcome, is_finished or settings.drain


def _stopped(settings: SimulationSettings, random: Random) -> SimulationSettings:
    step, drain = random.randrange(60, 700), random.random() < 0.7
    return replace(settings, stop_at_step=step, drain=drain)


def _as_row(row: Row) -> tuple[Any, ...]:
    return row.id, row.key, DAY + timedelta(microseconds=row.at_us - DAY_US)


def check(name: str, scenario: Scenario) -> list[Ended]:
    """Play a job; raises where it gives anything but what its model does."""
    ends = []
    for each in play(name, scenario):
        ends.append(each)
        story = each.outcome.simulation.story
        assert each.found == each.wanted, (
            f"{name}: too much {each.found - each.wanted}, too little {each.wanted - each.found}\n"
            f"{story()}"
        )
        for state in JOBS[name].states:
            assert each.outcome.state("f", state) == {}, f"{state} is not empty\n{story()}"
    return ends
