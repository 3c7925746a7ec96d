"""Runs a graph that moves: stopped several times, it goes on in another mode, over another backend,
in other chains, at another parallelism, and some of the time in another directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends.heap.settings import HeapSettings
from tests.graphs.drawing import drawn_graph
from tests.graphs.operators import Step
from tests.graphs.playing import Played, check_played, check_states_played, scenario_of, sizes_of
from tests.simulation.scenarios import Scenario, database_of, external_of, versioned_of

MODES = ("exactly_once", "unaligned", "unaligned")


def check_moving_seed(seed: int) -> None:
    """Draw a graph, have it move, and compare it with its model; names the seed that fails."""
    steps = drawn_graph(seed)
    try:
        check_moving_graph(steps, seed)
    except Exception as error:
        graph = "\n".join(f"    {step!r}," for step in steps)
        raise AssertionError(f"seed {seed}: {error}\n[\n{graph}\n]") from error


def check_moving_graph(steps: Sequence[Step], seed: int) -> None:
    """Have a graph move as a seed decides, and fork it from a savepoint that was taken."""
    moving = Moving(steps, stages_of(seed))
    with sizes_of(moving.scenario):
        moving.to_its_end()
        check_played(moving)
        fork = moving.forked()
        if fork is not None:
            fork.to_its_end()
            check_states_played(fork)


def stages_of(seed: int) -> list[Scenario]:
    """What happens at each place. The job is stopped or cancelled at all but the last."""
    random = Random(f"moves-{seed}")
    external = random.choice([external_of, versioned_of])(seed)
    backends = [HeapSettings(), database_of(seed), external]
    stages = []
    for number in range(random.choice([2, 2, 3, 4])):
        scenario = _at(random, seed, number)
        stages.append(replace(scenario, backends=(random.choice(backends),)))
    last = replace(stages[-1].settings, stop_at_step=None, stop_after_epochs=None)
    return [*stages[:-1], replace(stages[-1], settings=last)]


def _at(random: Random, seed: int, number: int) -> Scenario:
    """The course of another graph, but for what cannot change on the way."""
    first, found = scenario_of(seed), scenario_of(seed + 1_000_000 * number)
    timeout_s = random.choice([0.0, 0.0, 0.01])
    snapshots = replace(
        found.snapshots,
        alignment_timeout_s=timeout_s,
        # A database that is full holds rows back, and a target that fails at each epoch ends none.
        timeout_s=max(found.snapshots.timeout_s, 2.0),
    )
    # Ordinary epochs hold more rows in line than the last of a stop.
    is_cancelled = random.random() < 0.5
    settings = replace(
        found.settings,
        savepoints=random.choice([0, 1]),
        terms=random.choice([0, 0, 1, 2]),
        stop_at_step=None if is_cancelled else random.choice([20, 40, 80, 160]),
        stop_after_epochs=random.choice([1, 1, 2, 3]) if is_cancelled else None,
        stop_with_savepoint=random.random() < 0.25,
    )
    # Rows stand in line, so that epochs hold some of them.
    tuning = replace(
        found.tuning,
        window_bytes=random.choice([1, 200, 200, 2000]),
        max_chain=random.choice([1, 1, 3, 8]),
    )
    return replace(
        found,
        mode=random.choice(MODES),
        tuning=tuning,
        snapshots=snapshots,
        settings=settings,
        max_parallelism=first.max_parallelism,
        global_sink=first.global_sink,
        puts_off=False,
    )


class Moving(Played):
    """A run over several places; ``stages`` says what happens at each."""

    def __init__(self, steps: Sequence[Step], stages: Sequence[Scenario]) -> None:
        super().__init__(steps, stages[0])
        self._ahead = stages
        for stage in stages:
            self.fresh(stage)

    def to_its_end(self) -> None:
        for number, stage in enumerate(self._ahead):
            if number:
                self._move(Random(f"{stage.seed}-move"))
            self.scenario = stage
            self.stage(stage.parallelism, stage.settings)

    def calm(self, scenario: Scenario) -> None:
        """Those of every place: the last stage may find nothing to do, and leave all as it is."""
        for stage in self._ahead:
            super().calm(stage)

    def _move(self, random: Random) -> None:
        """Go on where the job is, from its savepoint, or from its snapshots in a new directory."""
        simulation = self.simulations[-1]
        if simulation.coordinator.status is not Status.STOPPED:
            return
        origin = simulation.requests.last_stop
        if origin is None and random.random() < 0.5:
            origin = f"{self.lineage}-snapshots"
            self.places[origin] = self.storage
        if origin is not None and random.random() < 0.8:
            self.storage, self.origin = MemoryStorage(), origin
            self.lineage += "-moved"

    def beside(self, stages: Sequence[Scenario]) -> Moving:
        """A run of the same graph with stages of its own."""
        return Moving(self.steps, stages)

    def forked(self) -> Moving | None:
        """A job that goes on from a savepoint beside the one that took it, if there is one."""
        taken = [path for each in self.simulations for path in each.requests.savepoints]
        if not taken:
            return None
        last = self._ahead[-1]
        settings = replace(last.settings, crashes=0, savepoints=0, rescales=())
        fork = self.beside([replace(last, backends=(HeapSettings(),), settings=settings)])
        fork.places, fork.lineage = self.places, f"{self.lineage}-forked"
        fork.origin = Random(f"{last.seed}-fork").choice(taken)
        return fork
