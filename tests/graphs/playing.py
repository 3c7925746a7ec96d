"""Runs a graph in the simulation, through crashes, rescales and restarts, beside its model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from mainstay.runtime import watermarks
from mainstay.runtime.operators import window
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.testing.inspect import committed_state
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.graphs.drawing import drawn_graph, flows_of
from tests.graphs.operators import KINDS, Checks, Flow, Step
from tests.graphs.rows import counted, of_rows, plain
from tests.simulation.conduct import check_failures, check_leading
from tests.simulation.playing import merge_memories, small_sizes
from tests.simulation.scenarios import Scenario, drawn

MODES = ("exactly_once", "exactly_once", "unaligned", "at_least_once")


def scenario_of(seed: int) -> Scenario:
    """What happens to the graph of a seed."""
    random = Random(f"course-{seed}")
    mode = random.choice(MODES)
    scenario = (Scenario.unaligned if mode == "unaligned" else Scenario.of)(seed)
    settings = replace(
        scenario.settings,
        crashes=random.choice([0, 1, 2]),
        crash_within_steps=random.choice([100, 300, 900]),
        check_invariants=False,
        # To end event time before the end of the input would change what windows hold.
        drain=False,
        rescales=random.choice([(), (), (random.randint(1, 3),)]),
        savepoints=0,
        max_steps=200_000,
    )
    # Graphs differ more than their courses: what makes a course long is left to other suites.
    tuning = replace(
        scenario.tuning,
        batch_rows=random.choice([4, 32]),
        window_bytes=random.choice([200, 2000, 1 << 20]),
        max_chain=random.choice([1, 3, 8, 8]),
    )
    scenario = replace(
        scenario,
        mode=mode,
        settings=settings,
        tuning=tuning,
        snapshots=replace(scenario.snapshots, every_s=random.choice([0.02, 0.05])),
        parallelism=random.randint(1, 3),
        rescaled_to=random.choice([None, None, random.randint(1, 3)]),
    )
    return drawn(scenario)


def check_seed(seed: int) -> None:
    """Draw a graph, run it, and compare it with its model; names the seed that fails."""
    steps = drawn_graph(seed)
    try:
        check_graph_of(steps, scenario_of(seed))
    except Exception as error:
        graph = "\n".join(f"    {step!r}," for step in steps)
        raise AssertionError(f"seed {seed}: {error}\n[\n{graph}\n]") from error


def check_graph_of(steps: Sequence[Step], scenario: Scenario) -> None:
    """Run a graph, and compare what it has come to with its model."""
    played = Played(steps, scenario)
    with sizes_of(scenario):
        played.to_its_end()
    check_played(played)


def check_played(played: Played) -> None:
    """Compare outputs and states with the model."""
    check_sinks(played, played.steps, flows_of(played.steps))
    if played.scenario.mode != "at_least_once":
        check_states_played(played)
        for found in _checks_of(played.steps):
            check_greatest(played, found.greatest)


def check_states_played(played: Played) -> None:
    for found in _checks_of(played.steps):
        check_states(played, found.states)


def _checks_of(steps: Sequence[Step]) -> Iterator[Checks]:
    flows = flows_of(steps)
    for uid, step in named(steps):
        read = [flows[number] for number in step.inputs]
        yield KINDS[step.kind].checks(uid, step.params, read)


@contextmanager
def sizes_of(scenario: Scenario) -> Iterator[None]:
    with (
        small_sizes(scenario),
        patch.object(window, "EMITTED_ROWS", (1, window.EMITTED_ROWS)[scenario.seed % 2]),
        patch.object(watermarks, "EVERY_S", (0.0, 0.002)[scenario.seed % 3 // 2]),
    ):
        yield


def named(steps: Sequence[Step]) -> list[tuple[str, Step]]:
    """Steps with the uid of their operator."""
    return [(f"s{number}-{step.kind}", step) for number, step in enumerate(steps)]


def built(env: ms.Environment, steps: Sequence[Step]) -> None:
    """Write a graph into an environment."""
    streams: list[Any] = []
    for uid, step in named(steps):
        read = [streams[number] for number in step.inputs]
        settings = dict(step.params.get("settings", {}))
        params = {name: each for name, each in step.params.items() if name != "settings"}
        streams += KINDS[step.kind].build(env, uid, params, read, settings)


# ---------------------------------------------------------------- checks


def check_sinks(played: Played, steps: Sequence[Step], flows: Sequence[Flow]) -> None:
    """Every sink has the rows of its stream: all, and each as often as the model says."""
    for uid, step in named(steps):
        if step.kind != "sink":
            continue
        flow, found = flows[step.inputs[0]], counted(played.output(uid))
        expected = counted(flow.rows)
        if played.scenario.mode == "at_least_once":
            if flow.is_rowwise:
                assert not expected - found, f"{uid} lacks {expected - found}\n{played.story()}"
                assert set(found) == set(expected), f"{uid} has too much\n{played.story()}"
            continue
        assert found == expected, (
            f"{uid} lacks {dict(expected - found)}, has too much {dict(found - expected)}\n"
            f"{played.story()}"
        )


def check_states(played: Played, states: Any) -> None:
    for (uid, name, *field), expected in states.items():
        found = shown(played.state(uid, name), *field)
        if field == ["each"]:
            assert all(each == expected for each in found), f"{uid}.{name}: {found}, {expected}"
            continue
        wrong = (
            {
                key: (found.get(key), expected.get(key))
                for key in {*found, *expected}
                if found.get(key) != expected.get(key)
            }
            if isinstance(found, dict)
            else (found, expected)
        )
        assert found == expected, f"{uid}.{name} (found, expected): {wrong}\n{played.story()}"


def shown(state: Any, field: str | None = None) -> Any:
    """A state as checks write it: lists in no order, keys that can be compared."""
    if isinstance(state, list):
        if field == "each":
            return plain(state)
        return of_rows(each for units in state for each in units)
    found = {}
    for key, value in state.items():
        value = getattr(value, field) if field else value
        found[plain(key)] = of_rows(value) if isinstance(value, list) else plain(value)
    return found


def check_greatest(played: Played, greatest: Any) -> None:
    for uid, expected in greatest.items():
        found: dict[Any, Any] = {}
        for key, *rest in played.output(uid):
            if key not in found or found[key][0] < rest[0]:
                found[key] = tuple(rest)
        assert found == expected, f"{uid}: {found} is not {expected}\n{played.story()}"


# ---------------------------------------------------------------- runs


@dataclass
class Played:
    """The stages of a run: what is stored, and what its sinks have committed."""

    steps: Sequence[Step]
    scenario: Scenario

    def __post_init__(self) -> None:
        self.storage = MemoryStorage()
        self.places: dict[str, Any] = {}
        self.sinks: dict[str, Any] = {}
        self.stages = 0
        self.simulations: list[Simulation] = []
        self.lineage = "job"
        self.origin: str | None = None
        """Where the history begins, if it goes on from another one."""
        self.fresh(self.scenario)

    def fresh(self, scenario: Scenario) -> None:
        """Empty the databases of a scenario."""
        for backend in scenario.backends:
            if isinstance(backend, MemoryStoreSettings):
                backend.fresh()

    def to_its_end(self) -> None:
        """Once, or stopped in the middle and started again at another parallelism."""
        scenario, settings = self.scenario, self.scenario.settings
        stops = settings.stop_at_step is not None
        parallelism = scenario.parallelism
        if scenario.rescaled_to is not None or stops:
            after = None if stops else scenario.stop_after
            self.stage(parallelism, replace(settings, stop_after_epochs=after))
            parallelism = scenario.rescaled_to or parallelism
            settings = replace(settings, stop_at_step=None)
        self.stage(parallelism, settings)

    def output(self, uid: str) -> list[Any]:
        return list(self.sinks[uid].rows())

    def calm(self, scenario: Scenario) -> None:
        """Have the databases of a scenario answer from here on."""
        for backend in scenario.backends:
            if isinstance(backend, MemoryStoreSettings):
                backend.server().faults = 0

    def state(self, uid: str, name: str) -> Any:
        self.calm(self.scenario)
        return committed_state(self.storage, self.job, uid, name)

    def story(self) -> str:
        return "\n".join(each.story() for each in self.simulations)[-4000:]

    def stage(self, parallelism: int, settings: SimulationSettings) -> None:
        self.stages += 1
        scenario = self.scenario
        env = ms.Environment(
            parallelism=parallelism,
            max_parallelism=scenario.max_parallelism,
            mode=scenario.mode,
        )
        self.write(env)
        graph, sinks = replaced(env.graph(), {}, scenario.make_sink)
        check_graph(graph)
        self.job = self._planned(graph)
        simulation = Simulation(
            self.job,
            self._options(),
            settings,
            self.storage,
            places=self.places,
            plan_at=lambda other: self._planned(graph.at(other)),
        )
        self.simulations.append(simulation)
        simulation.run()
        check_leading(simulation)
        self.check_end(simulation)
        for uid, sink in sinks.items():
            if uid in self.sinks:
                merge_memories(self.sinks[uid], sink)
            self.sinks[uid] = sink

    def write(self, env: ms.Environment) -> None:
        """Write the program of this stage."""
        built(env, self.steps)

    def check_end(self, simulation: Simulation) -> None:
        """No stage fails for good."""
        if simulation.coordinator.error is not None:
            raise AssertionError(self.story()) from simulation.coordinator.error
        check_failures(simulation)

    def _planned(self, graph: Any) -> JobSpec:
        backends = self.scenario.backends
        return replace(plan_of(graph), backend=backends[min(self.stages, len(backends)) - 1])

    def _options(self) -> JobOptions:
        origin = None if self.storage.list("log/") else self.origin
        return JobOptions(
            name="job",
            lineage=self.lineage,
            snapshots=self.scenario.snapshots,
            restart=RestartOptions(max_failures=200, backoff_s=0.005, max_backoff_s=0.05),
            restore=RestoreOptions("new" if origin else "latest-or-new", origin=origin),
            tuning=self.scenario.tuning,
        )
