"""Operators with a number of key-groups of their own, under crashes, rescales and overtaking."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.coordinator import recovery
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.worker import assembly
from mainstay.testing import rows, run
from tests.simulation.planting import planting
from tests.simulation.scenarios import Scenario
from tests.simulation.seeds import Chunk, check_fixed, check_many, fixed, is_noticed
from tests.simulation.shares import soaked

SEEDS = 6
MUTATIONS, mutation = planting()


@pytest.mark.parametrize("chunk", fixed(SEEDS, 3, suite=SEEDS))
def test_every_input_counts_exactly_once_in_the_key_groups_of_its_operator(chunk: Chunk) -> None:
    check_fixed(Scenario.of_own_groups, chunk)


@pytest.mark.parametrize("seeds", soaked("key groups", SEEDS))
def test_so_it_does_over_many_seeds(seeds: range) -> None:
    check_many(Scenario.of_own_groups, seeds)


# ---------------------------------------------------------------- event time

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
EVENTS = [(f"k{n % 7}", START + timedelta(seconds=n % 50), n) for n in range(200)]


class Ringing(ms.KeyedProcess):
    """At each timer, how many rows of the key are not newer."""

    times = ms.ListState("timestamp")

    def process(self, row: Any, ctx: Any) -> None:
        self.times.add(row.at)
        ctx.timers.event_time(row.at)

    def on_timer(self, at: datetime, ctx: Any) -> Any:
        yield ctx.key, at, sum(each <= at for each in self.times.get())


def timed(env: ms.Environment, own: tuple[int | None, ...]) -> None:
    mark = ms.Watermark("at", delay="50s")
    given = env.source(rows("k string, at timestamp, n long", EVENTS), uid="in", watermark=mark)
    keyed, windows, timers = given.key_by("k"), own[0], own[1]
    counts = keyed.window(ms.tumbling("10s")).aggregate(
        n=ms.count(), uid="windows", max_parallelism=windows
    )
    counts.sink(Memory(), uid="windows-out")
    joined = keyed.join(
        counts.key_by("k"),
        within=ms.interval("0s", "10s"),
        on=("at", "window_end"),
        suffix="_right",
        uid="joined",
        max_parallelism=own[2],
    )
    joined.sink(Memory(), uid="joined-out")
    keyed.process(
        Ringing(), "k string, at timestamp, n long", uid="timers", max_parallelism=timers
    ).sink(Memory(), uid="timers-out")


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("seed", range(2))
def test_windows_joins_and_timers_go_by_the_key_groups_of_their_operators(
    seed: int, mode: str
) -> None:
    def outputs(own: tuple[int | None, ...], **more: Any) -> list[Any]:
        result = run(lambda env: timed(env, own), seed=seed, mode=mode, **more)
        return [sorted(result.output(f"{uid}-out")) for uid in ("windows", "joined", "timers")]

    own = outputs((5, 31, 200), crashes=3, rescales=[4, 1, 3])
    assert own == outputs((None, None, None), parallelism=1)
    assert all(own)


# ---------------------------------------------------------------- planted bugs


@mutation
def rows_are_routed_by_the_key_groups_of_the_job() -> Iterator[None]:
    right = assembly.Assembler._output

    def misrouted(self: Any, *arguments: Any) -> Any:
        with patch.object(JobSpec, "key_groups", lambda job, _: job.max_parallelism):
            return right(self, *arguments)

    with patch.object(assembly.Assembler, "_output", misrouted):
        yield


@mutation
def in_flight_rows_are_taken_by_the_key_groups_of_the_job() -> Iterator[None]:
    right = assembly.Assembler.replay

    def misled(self: Any, *arguments: Any) -> Any:
        own_rows, most = assembly.own_rows, self.job.max_parallelism
        with patch.object(assembly, "own_rows", lambda *given: own_rows(*given[:-1], most)):
            return right(self, *arguments)

    with patch.object(assembly.Assembler, "replay", misled):
        yield


@mutation
def state_is_dealt_out_by_the_key_groups_of_the_job() -> Iterator[None]:
    right = recovery.plan_restore

    def misdealt(manifest: Any, job: Any, *arguments: Any, **more: Any) -> Any:
        distribute = recovery._distribute

        def dealt(stored: Any, match: Any, parallelism: int, most: int, rewrite: bool) -> Any:
            return distribute(stored, match, parallelism, job.max_parallelism, rewrite)

        with patch.object(recovery, "_distribute", dealt):
            return right(manifest, job, *arguments, **more)

    with patch("mainstay.runtime.coordinator.starting.plan_restore", misdealt):
        yield


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert is_noticed(Scenario.of_own_groups, within=60), f"nothing notices that {name}"
