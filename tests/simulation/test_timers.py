"""Timers through crashes, rescales, stops and drains: each fires once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import SimulatedClock, rows, run
from tests.simulation.noticing import is_noticed
from tests.simulation.seeds import in_chunks
from tests.simulation.shares import soaked
from tests.simulation.timer_cases import check, counted_cuts, play, timers
from tests.simulation.timer_mutations import MUTATIONS
from tests.timers import START, WALL

SEEDS = 40
CHUNK = 5


def check_seed(seed: int) -> Any:
    try:
        outcome, is_in_batches = play(timers(seed))
        check(outcome, is_in_batches)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return outcome


@pytest.mark.parametrize("first", in_chunks(SEEDS, CHUNK, suite=5))
def test_every_timer_fires_once_unless_it_was_deleted_or_replaced(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_seed(seed)


@pytest.mark.parametrize("seeds", soaked("timers", SEEDS))
def test_every_timer_fires_once_over_many_seeds(seeds: range) -> None:
    for seed in seeds:
        check_seed(seed)


def test_the_fixed_seeds_cover_what_they_should() -> None:
    scenarios = [timers(seed) for seed in range(SEEDS)]
    assert {scenario.mode for scenario in scenarios} == {"exactly_once", "unaligned"}
    assert sum(scenario.settings.rescales == (3, 2) for scenario in scenarios) > 5
    stops = [each.settings for each in scenarios if each.settings.stop_at_step is not None]
    assert {settings.drain for settings in stops} == {True, False}
    whats: set[str] = set()
    with counted_cuts() as cuts:
        restarted = 0
        for seed in range(20):
            outcome = check_seed(seed)
            whats |= {what for what, _ in outcome.output}
            restarted += len(outcome.simulation.attempts) > 1
    assert whats == {"row", "fired", "again", "deleted", "replaced", "ignored"}
    assert restarted > 5
    assert cuts[0] > 5


class Slow(ms.KeyedProcess):
    """Every timer takes a while."""

    close = ms.Timer("event_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.close.set(row.at)

    def on_timer(self, at: Any, ctx: Any) -> Any:
        CLOCK.now += 0.002
        return (ctx.key,)


CLOCK = SimulatedClock()


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
def test_markers_pass_while_many_timers_fire(mode: str) -> None:
    """All are due by one watermark, and take much longer than the time between two epochs."""
    given = [(key, START) for key in range(300)]

    def build(env: ms.Environment) -> None:
        time = ms.Watermark("at", delay="1h")  # so that it is the last watermark
        keyed = env.source(rows("key long, at timestamp", given), uid="in", watermark=time)
        fired = keyed.key_by("key").process(Slow(), "key long", uid="f")
        fired.sink(ms.connectors.Memory(), uid="out")

    for seed in range(4):
        CLOCK.now = 0.0
        with counted_cuts() as cuts:
            result = run(build, seed=seed, crashes=3, mode=mode, clock=CLOCK)
        assert sorted(result.output("out")) == [(key,) for key in range(300)]
        assert len(result.attempts) > 1
        assert cuts[0] > 3


def test_what_came_due_while_the_last_watermark_fired_is_fired_before_the_end() -> None:
    """The alarm is for a moment that passes while the timers of event time fire, each for 2 ms."""
    given = [(key, START) for key in range(50)]

    def build(env: ms.Environment) -> None:
        time = ms.Watermark("at", delay="1h")
        keyed = env.source(rows("key long, at timestamp", given), uid="in", watermark=time)
        rung = keyed.key_by("key").process(Ringing(), "key long, clock string", uid="f")
        rung.sink(ms.connectors.Memory(), uid="out")

    expected = [(key, clock) for key in range(50) for clock in ("event_time", "processing_time")]
    for seed in range(30):
        CLOCK.now = 0.0
        result = run(build, seed=seed, clock=CLOCK)
        assert sorted(result.output("out")) == expected, seed


class Ringing(Slow):
    ring = ms.Timer("processing_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.close.set(row.at)
        self.ring.set(WALL + timedelta(milliseconds=30))

    def on_timer(self, at: Any, ctx: Any) -> Any:
        super().on_timer(at, ctx)
        return (ctx.key, ctx.time_domain)


# ---------------------------------------------------------------- planted bugs


@pytest.mark.mutation
@pytest.mark.parametrize("bug", MUTATIONS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    with MUTATIONS[bug]():
        assert is_noticed(lambda seed: check(*play(timers(seed))), 200), f"nobody noticed: {bug}"
