"""Runs a scenario in its stages: through stops, rescales, starts with more rows, and restores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle, pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.api import iterate
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from mainstay.runtime import feedback_log
from mainstay.runtime.operators import aggregate, gathering
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Status
from mainstay.snapshot import history, units
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.cached import tables as rocks_tables
from mainstay.state.backends.external import retained
from mainstay.state.backends.heap import slotted
from mainstay.state.backends.heap import tables as heap_tables
from mainstay.state.backends.rocksdb import timer_order
from mainstay.testing.inspect import CommittedState
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.rivals import RivalSimulation
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.simulation.conduct import check_failures, check_leading, check_refusals
from tests.simulation.ends import BlockingRows, CoarseRows, away
from tests.simulation.graphs import BUILT, COUNTED
from tests.simulation.ledgers import ROW
from tests.simulation.scenarios import Scenario


@dataclass(frozen=True)
class Outcome:
    """What a scenario came to, ready to be checked."""

    scenario: Scenario
    given: dict[str, list[tuple[Any, ...]]]
    output: list[tuple[Any, ...]]
    state: Callable[[str, str], Any]
    simulation: Simulation
    restored: Outcome | None = None
    """What a savepoint that was taken on the way comes to when a job is restored from it."""


def cuts(scenario: Scenario) -> list[int]:
    """How many of the rows there are at each start."""
    return [n * scenario.rows // scenario.starts for n in range(1, scenario.starts + 1)]


def rows_for(scenario: Scenario, name: str, first_id: int) -> list[tuple[Any, ...]]:
    random = Random(f"{scenario.seed}-{name}")
    rows = []
    bounds = [0]
    for before, after in pairwise([0, *cuts(scenario)]):
        splits = range(1, scenario.splits + 1)
        bounds += [before + n * (after - before) // scenario.splits for n in splits]
    for split, (first, last) in enumerate(pairwise(bounds)):
        for place in range(first, last):
            # Skewed: the first key gets about half of the rows.
            key = 0 if random.random() < 0.5 else random.randrange(scenario.keys)
            number = first_id + place
            rows.append((number, first_id + split, place, f"k{key}", random.randrange(4)))
    return rows


def play(scenario: Scenario, *, crash_free: bool = False) -> Outcome:
    """Run a scenario to its end: once, or stopped in the middle and restored elsewhere."""
    with small_sizes(scenario):
        return _play(scenario, crash_free)


@contextmanager
def small_sizes(scenario: Scenario) -> Iterator[None]:
    """Bounds so low that what happens beyond them happens with few rows."""
    with (
        patch.object(heap_tables, "SHARD_ABOVE", scenario.shard_above),
        patch.object(slotted, "SLICE_ROWS", 1),
        patch.object(rocks_tables, "CACHED", (0.0, 0.5)[scenario.seed % 4 // 2]),
        patch.object(timer_order, "HEAD_TIMERS", (16, 16384)[scenario.seed % 8 // 4]),
        patch.object(timer_order, "FIRST_READ", (1, 16)[scenario.seed % 8 // 4]),
        patch.object(timer_order, "FEW", (1, 1024)[scenario.seed % 2]),
        patch.object(gathering, "GATHERED_ROWS", (1, 5, 1 << 15)[scenario.seed % 3]),
        patch.object(aggregate, "PASSED_ON", scenario.seed % 4),
        patch.object(feedback_log, "CHUNK_BYTES", (200, 1 << 20)[scenario.seed % 2]),
        patch.object(iterate, "MEMORY_BYTES", (300, 1 << 20)[scenario.seed % 4 // 2]),
        patch.object(history, "KEPT_EPOCHS", (1, 8)[scenario.seed % 2]),
        patch.object(retained, "LEAST_ROWS", (1, 20)[scenario.seed % 2]),
        patch.object(retained, "ROWS_AT_A_TIME", (5, 50_000)[scenario.seed % 4 // 2]),
        patch.object(units, "MOST_IN_MANIFEST", (300, 1 << 16)[scenario.seed % 8 // 4]),
    ):
        yield


def _play(scenario: Scenario, crash_free: bool) -> Outcome:
    away.seed(scenario.seed)
    for backend in scenario.backends:
        if isinstance(backend, MemoryStoreSettings):
            backend.fresh()
    _, names = BUILT[scenario.graph]
    given = {name: rows_for(scenario, name, 1000 * n) for n, name in enumerate(names, 1)}
    kind = BlockingRows if scenario.blocking else CoarseRows
    starts = [
        {name: kind(ROW, rows[:cut], splits=scenario.splits) for name, rows in given.items()}
        for cut in cuts(scenario)
    ]
    given = {name: given[name] for name in COUNTED.get(scenario.graph, names)}
    run = Run(scenario, starts[0], given)
    settings = scenario.settings
    for number, sources in enumerate(starts[1:], 1):
        play_to_its_end(run, settings, crash_free)
        run.sources = sources
        settings = replace(settings, seed=scenario.seed + 1_000_000 * number)
    if crash_free:
        settings = replace(settings, crashes=0, storage_faults=0, savepoints=0, rescales=())
        return run.stage(scenario.parallelism, replace(settings, stop_at_step=None))
    parallelism, stops = scenario.parallelism, settings.stop_at_step is not None
    if scenario.rescaled_to is not None or stops:
        # The first stage is cancelled, or stopped as a user would do it.
        after = None if stops else scenario.stop_after
        run.stage(parallelism, replace(settings, stop_after_epochs=after))
        run.move(scenario.restores_savepoint and settings.stop_with_savepoint)
        parallelism = scenario.rescaled_to or parallelism
        settings = replace(settings, stop_at_step=None)
    outcome = run.stage(parallelism, settings)
    if scenario.starts > 1:
        check_nothing_is_new(run, parallelism, settings)
    if settings.savepoints and outcome.simulation.requests.savepoints:
        return replace(outcome, restored=run.restored(outcome.simulation.requests.savepoints[0]))
    return outcome


def play_to_its_end(run: Run, settings: SimulationSettings, crash_free: bool) -> None:
    """A start that is not the last: with what there is to read so far, until it has ended."""
    scenario = run.scenario
    if crash_free:
        settings = replace(settings, crashes=0, storage_faults=0, savepoints=0, rescales=())
    if crash_free or scenario.splits > 1:
        # Where a job stops before it has planned, its rows are divided otherwise the next time.
        settings = replace(settings, stop_at_step=None)
    run.stage(scenario.parallelism, settings)
    run.move(scenario.restores_savepoint and settings.stop_with_savepoint)


class Run:
    """The stages of a scenario: where the job's history is, and what its sinks have committed."""

    def __init__(self, scenario: Scenario, sources: dict[str, Any], given: dict[str, Any]) -> None:
        self.scenario = scenario
        self.sources = sources
        self.given = given
        self.storage = MemoryStorage()
        self.places: dict[str, Any] = {}
        self.origin: str | None = None
        self.history = "job"
        self.committed: list[Any] = []
        self.stopped_with: str | None = None
        self.stages = 0

    def plan(self, graph: Any) -> JobSpec:
        backends = self.scenario.backends
        return replace(plan_of(graph), backend=backends[min(self.stages, len(backends)) - 1])

    @property
    def votes(self) -> bool:
        """Whether a database votes on epochs."""
        stores = [b for b in self.scenario.backends if isinstance(b, MemoryStoreSettings)]
        return any(store.protocol == "prepared" for store in stores)

    def graph(self, parallelism: int) -> tuple[Any, dict[str, Any]]:
        scenario = self.scenario
        env = ms.Environment(
            parallelism=parallelism,
            max_parallelism=scenario.max_parallelism,
            mode=scenario.mode,
        )
        build, _ = BUILT[scenario.graph]
        ledgers = scenario.ledgers
        ledger = ledgers[min(self.stages, len(ledgers)) - 1]
        build(env, lambda name: env.source(self.sources[name], uid=name), ledger)
        graph, sinks = replaced(env.graph(), {}, scenario.make_sink)
        graph = with_own_groups(graph, scenario.own_groups)
        check_graph(graph)
        return graph, sinks

    def stage(self, parallelism: int, settings: SimulationSettings) -> Outcome:
        self.stages += 1
        graph, sinks = self.graph(parallelism)
        origin = None if self.storage.list("log/") else self.origin
        start = "latest-or-new" if origin is None else "new"
        options = JobOptions(
            name="job",
            lineage=self.history,
            snapshots=self.scenario.snapshots,
            restart=RestartOptions(max_failures=200, backoff_s=0.005, max_backoff_s=0.05),
            restore=RestoreOptions(start, origin=origin),
            tuning=self.scenario.tuning,
            min_parallelism=self.scenario.least,
        )
        rivalry = self.scenario.rivalry
        make = Simulation if rivalry is None else partial(RivalSimulation, rivalry=rivalry)
        simulation = make(
            self.plan(graph),
            options,
            settings,
            self.storage,
            places=self.places,
            plan_at=lambda other: self.plan(graph.at(other)),
        )
        simulation.run()
        check_leading(simulation)
        if simulation.coordinator.error is not None:
            raise AssertionError(simulation.story()) from simulation.coordinator.error
        check_refusals(simulation, votes=self.votes)
        check_failures(simulation)
        is_stopped = simulation.coordinator.status is Status.STOPPED
        self.stopped_with = simulation.requests.last_stop if is_stopped else None
        self.committed.append(sinks["out"])
        if len(self.committed) > 1:
            merge_memories(self.committed[-2], self.committed[-1])
        storage, job = self.storage, plan_of(graph)
        return Outcome(
            scenario=self.scenario,
            given=self.given,
            output=sinks["out"].rows(),
            state=self._committed(storage, job),
            simulation=simulation,
        )

    def _committed(self, storage: Any, job: JobSpec) -> Callable[[str, str], Any]:
        """What a client sees that no call fails for, when it looks for the first time."""

        @cache
        def looked() -> CommittedState:
            for backend in self.scenario.backends:
                if isinstance(backend, MemoryStoreSettings):
                    backend.server().faults = 0
            return CommittedState(storage, job)

        return lambda uid, name: looked().of(uid, name)

    def move(self, to_savepoint: bool) -> None:
        """Go on in another directory, from the savepoint that the job was stopped with."""
        if to_savepoint and self.stopped_with is not None:
            self.storage, self.origin = MemoryStorage(), self.stopped_with
            self.history += "-moved"

    def restored(self, savepoint: str) -> Outcome:
        """A job that is forked from a savepoint and runs to its end beside the other."""
        fork = Run(self.scenario, self.sources, self.given)
        fork.places, fork.origin, fork.stages = self.places, savepoint, self.stages
        fork.history = f"{self.history}-forked"
        settings = SimulationSettings(seed=self.scenario.seed, max_steps=60_000)
        return fork.stage(1 + self.scenario.seed % 5, settings)


def with_own_groups(graph: Any, numbers: tuple[int, ...]) -> Any:
    """The graph whose keyed operators have these numbers of key-groups, in turn."""
    turn = cycle(numbers or (None,))
    operators = (
        each if each.key is None else replace(each, max_parallelism=next(turn))
        for each in graph.operators
    )
    return replace(graph, operators=tuple(operators))


def check_nothing_is_new(run: Run, parallelism: int, settings: SimulationSettings) -> None:
    """A job that has finished with all its rows ends at once when it is started again."""
    before = stored_by(run)
    simulation = run.stage(parallelism, settings).simulation
    assert simulation.coordinator.status is Status.FINISHED, simulation.story()
    assert not simulation.attempts, simulation.story()
    assert "no new input since" in simulation.coordinator.chronicle.report[0]
    assert stored_by(run) == before


def stored_by(run: Run) -> dict[str, bytes]:
    """What a run has stored. How the driver before it has ended may be noted at any later start."""
    paths = (path for path in run.storage.list("") if not path.startswith("failures/"))
    return {path: run.storage.read(path) for path in paths}


def merge_memories(first: Any, second: Any) -> None:
    """Both stages write to one target in the real world; handles keep their names across them."""
    from mainstay.connectors import memory

    both = memory._committed[first.number] | memory._committed[second.number]
    memory._committed[second.number] = both
