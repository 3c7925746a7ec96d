"""States of a sink under crashes, rescales and overtaking: they tell of what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.plan.planning import plan_of
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.operators.sink_states import SinkStates
from mainstay.runtime.options import JobOptions, RestartOptions, SnapshotOptions
from mainstay.runtime.spec import Tuning
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.operator import OperatorList
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.simulation import noticing
from tests.simulation.planting import planting
from tests.simulation.shares import soaked

NUMBERS = 150
SEEDS = 6
MUTATIONS, mutation = planting()


class Noting(ms.connectors.SinkWriter):
    """Notes what it has written: the half of it at once, the other with the epoch."""

    def __init__(self, sink: Any, inner: Any) -> None:
        self._sink, self._inner = sink, inner
        self._odd: list[int] = []

    def write(self, batch: Any) -> Any:
        numbers = batch.column("n").to_pylist()
        self._sink.even.extend(n for n in numbers if n % 2 == 0)
        self._odd += [n for n in numbers if n % 2]
        return partial(self._inner.write, batch)

    def prepare(self, epoch: int) -> Any:
        self._sink.odd.extend(self._odd)
        self._odd.clear()
        return partial(self._inner.prepare, epoch)


class NotingMemory(Memory):
    """Keeps the numbers of all rows that went through it; what it defers is done later."""

    even = ms.OperatorListState("long", "split")
    odd = ms.OperatorListState("long", "union")

    def open(self, context: Any) -> Any:
        return Noting(self, super().open(context))


class LocalNotingMemory(NotingMemory):
    """Committed by the subtasks."""

    is_global = False


def check(seed: int) -> None:
    """What the sink has noted, and what it has committed, is every row once."""
    mode = ("exactly_once", "unaligned")[seed % 2]
    kind = (NotingMemory, LocalNotingMemory)[seed // 2 % 2]
    env = ms.Environment(parallelism=2, mode=mode)
    numbers = ms.connectors.Rows("n long", [(n,) for n in range(NUMBERS)], splits=4)
    env.source(numbers, uid="in").rebalance().sink(kind(), uid="out")
    graph, sinks = replaced(env.graph(), {}, kind)
    storage = MemoryStorage()
    options = JobOptions(
        "job",
        "job",
        SnapshotOptions(every_s=0.01, tolerable_failures=1000),
        restart=RestartOptions(max_failures=100, backoff_s=0.005),
        tuning=Tuning(batch_rows=4, first_slice_rows=2, max_slice_rows=3, window_bytes=200),
    )
    settings = SimulationSettings(
        seed=seed, crashes=3, rescales=(3, 1, 4), crash_within_steps=900, max_steps=60_000
    )
    job = plan_of(graph)
    simulation = Simulation(
        job, options, settings, storage, plan_at=lambda other: plan_of(graph.at(other))
    )
    simulation.run()
    assert simulation.coordinator.error is None, simulation.story()
    every = list(range(NUMBERS))
    assert sorted(n for (n,) in sinks["out"].rows()) == every, simulation.story()
    noted = [
        n
        for state in ("even", "odd")
        for units in committed_state(storage, job, "out", state)
        for n in units
    ]
    assert sorted(noted) == every, simulation.story()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_sink_notes_is_what_it_commits(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seeds", soaked("sink state", SEEDS))
def test_so_it_does_over_many_seeds(seeds: range) -> None:
    for seed in seeds:
        check(seed)


# ---------------------------------------------------------------- planted bugs


@mutation
def a_sink_starts_without_its_state() -> Iterator[None]:
    right = SinkStates.bind

    def forgetful(self: Any, sink: Any, context: Any) -> None:
        right(self, sink, context)
        for name in ("even", "odd"):
            context.lists[name].clear()

    with patch.object(SinkStates, "bind", forgetful):
        yield


@mutation
def the_state_of_a_sink_is_cut_before_it_prepares() -> Iterator[None]:
    prepare, copy_units = SinkOperator.before_marker, OperatorList.copy_units
    before: dict[int, list[Any]] = {}

    def noted(self: Any, epoch: Any) -> None:
        kept = self.context.lists["odd"]
        before[id(kept)] = copy_units(kept)
        prepare(self, epoch)

    def hasty(self: Any) -> list[Any]:
        return before.pop(id(self)) if id(self) in before else copy_units(self)

    with (
        patch.object(SinkOperator, "before_marker", noted),
        patch.object(OperatorList, "copy_units", hasty),
    ):
        yield


@pytest.mark.mutation
@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_planted_bug_is_caught(name: str) -> None:
    with MUTATIONS[name]():
        assert noticing.is_noticed(check, within=40), f"nothing notices that {name}"
