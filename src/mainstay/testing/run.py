"""Testing a job in milliseconds, without a JVM, with crashes, and the same every time.

::

    from mainstay.testing import rows, run

    orders = rows("customer string, amount long", [("alice", 5), ("bob", 3)])
    result = run(build, inputs={"orders": orders}, parallelism=3, seed=7, crashes=2)
    assert result.state("totals", "total") == {"alice": 5, "bob": 3}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mainstay.api.environment import Environment
from mainstay.connectors.memory import Rows
from mainstay.errors import GraphError
from mainstay.own_frames import own_frames
from mainstay.plan.check import check_graph
from mainstay.plan.logical import LogicalGraph
from mainstay.plan.planning import plan_of
from mainstay.quantities import whole_number
from mainstay.runtime.connector import Source
from mainstay.runtime.options import JobOptions, RestartOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.testing.elements import is_row
from mainstay.testing.listed import Listed
from mainstay.testing.processes import SimulatedClock
from mainstay.testing.reading_aside import read_aside
from mainstay.testing.replacing import ReplacingEnvironment
from mainstay.testing.result import Result
from mainstay.testing.script import Script, Stage, crashes_in, in_order, in_turns, lists_of
from mainstay.testing.scripted import ObservedSimulation, ScriptedClock, ScriptedSimulation
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.substitutes import on_stage, replaced

__all__ = ["Result", "replaced", "rows", "run"]

BATCH_ROWS = 64
FEW_ROWS = 4
SHORT_RUN_STEPS = 400
"""A run of fewer steps would be over before there is an epoch for a crash to go back to: it goes by
batches of a few rows."""
NEVER_S = 1e12

Inputs: TypeAlias = "Mapping[str, Source | list[Any]] | list[Any]"
"""What a run reads: sources and lists by uid, or one list for all inputs, of pairs of a uid and an
element."""


def rows(schema: Any, values: Sequence[Any], *, splits: int = 1) -> Rows:
    """A source of given rows. With more than one split, several subtasks read it at once.

    Between the rows there may be watermarks and other elements: then it is a list, of a schema
    that the source which it replaces does not declare.
    """
    if all(map(is_row, values)):
        return Rows(schema, values, splits=splits)
    if splits != 1:
        raise GraphError("rows: splits= is for rows alone; a list is read by all subtasks.")
    return Listed(schema, values)


@own_frames
def run(
    build: Callable[[Environment], Any],
    inputs: Inputs | None = None,
    *,
    parallelism: int = 2,
    max_parallelism: int = 128,
    seed: int = 0,
    crashes: int = 0,
    rescales: Sequence[int] = (),
    storage_faults: int = 0,
    mode: str = "exactly_once",
    clock: SimulatedClock | None = None,
    watermark_every_row: bool = False,
    ends: bool = True,
    read_late: bool = True,
) -> Result:
    """Run a bounded job to its end under a seed.

    ``build`` gets an environment and writes the job into it, as the real program would. Sources
    whose uid is in ``inputs`` are replaced, and what they name (files, servers) need not exist
    here; every sink is replaced by one in memory. Crashes
    hit workers and the coordinator while the job runs. Raises what made the job fail.

    An input that is a list is read one element at a time: a row, a ``Watermark``, or what else
    may stand in a list. Each takes effect when the job has done all that the one before it has
    led to. With ``ends=False`` lists have no end, and the job is stopped after their last element.

    Side outputs are read, whether the job does or not. With ``read_late=False`` late rows are read
    only where the job does, so that rows are combined before they go to windows, as elsewhere.

    It is rescaled to each of ``rescales``, at steps that the seed decides. A rescale that is asked
    for during another is refused and noted in ``result.simulation.requests.refusals``.
    """
    order = in_order(inputs) if isinstance(inputs, list) else None
    given = lists_of(order) if order is not None else dict(inputs or {})
    environment = ReplacingEnvironment(
        given, parallelism=parallelism, max_parallelism=max_parallelism, mode=mode
    )
    environment.check_rescales(rescales)
    for name, number in (("seed", seed), ("crashes", crashes), ("storage_faults", storage_faults)):
        whole_number(number, name, least=0, where="run")
    build(environment)
    environment.check_lists()
    sources = {uid: environment.inputs[uid] for uid in given}
    if watermark_every_row:
        sources = {uid: _one_at_a_time(source) for uid, source in sources.items()}
    lists = {uid: each.values for uid, each in sources.items() if isinstance(each, Listed)}
    if not ends and not lists:
        raise GraphError("run: ends=False is for inputs that are lists, and there is none.")
    script = in_turns(lists) if order is None else order
    has_faults = bool(crashes or rescales or storage_faults)
    trial = _Trial(
        environment.graph(),
        sources,
        script if lists else None,
        every_row=watermark_every_row,
        ends=ends,
        read_late=read_late,
        has_epochs=has_faults or not lists,
    )
    return _with_faults(
        trial,
        SimulationSettings(seed=seed, storage_faults=storage_faults),
        clock,
        crashes,
        rescales,
    )


def _with_faults(
    trial: _Trial,
    settings: SimulationSettings,
    clock: SimulatedClock | None,
    crashes: int,
    rescales: Sequence[int],
) -> Result:
    clock, batch_rows = clock or SimulatedClock(), BATCH_ROWS
    if crashes or rescales:
        # They are drawn over the length of a run, which a first run without them tells.
        steps = trial.run(settings, SimulatedClock(), batch_rows).simulation.steps
        if steps < SHORT_RUN_STEPS:
            batch_rows = FEW_ROWS
            steps = trial.run(settings, SimulatedClock(), batch_rows).simulation.steps
        settings = replace(
            settings,
            crashes=crashes,
            rescales=tuple(rescales),
            crash_within_steps=max(steps - 1, 1),
        )
    return trial.run(settings, clock, batch_rows)


def _one_at_a_time(source: Source) -> Source:
    if isinstance(source, Rows) and not isinstance(source, Listed):
        return Listed.of(source)
    return source


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is run, once or several times. ``script`` is None where no input is a list."""

    graph: LogicalGraph
    sources: Mapping[str, Source]
    script: Script | None
    every_row: bool
    ends: bool
    read_late: bool
    has_epochs: bool

    def run(self, settings: SimulationSettings, clock: SimulatedClock, batch_rows: int) -> Result:
        graph, sinks = replaced(self.graph, self.sources)
        lists = [uid for uid, each in self.sources.items() if isinstance(each, Listed)]
        stage = Stage(self.script or (), lists)
        graph = on_stage(graph, self.sources, stage, every_row=self.every_row)
        check_graph(graph)
        graph, sides = read_aside(graph, late=self.read_late)
        job, storage = plan_of(graph), MemoryStorage()

        def plan_at(parallelism: int) -> JobSpec:
            return plan_of(graph.at(parallelism))

        options = self._options(settings, batch_rows)
        if self.script is None:
            simulation = ObservedSimulation(job, options, settings, storage, clock, plan_at=plan_at)
        else:
            simulation = ScriptedSimulation(
                job,
                options,
                settings,
                storage,
                stage=stage,
                script_clock=ScriptedClock(clock.start),
                ends=self.ends,
                plan_at=plan_at,
            )
        simulation.run()
        if simulation.coordinator.error is not None:
            raise simulation.coordinator.error
        return Result(job, storage, sinks, simulation, sides)

    def _options(self, settings: SimulationSettings, batch_rows: int) -> JobOptions:
        failures = settings.crashes + settings.storage_faults + crashes_in(self.script or ()) + 1
        slice_rows = min(batch_rows, 16)
        every_s = 0.01 if self.has_epochs else NEVER_S
        return JobOptions(
            name="test",
            lineage="test",
            snapshots=SnapshotOptions(every_s=every_s, tolerable_failures=1000, timeout_s=5.0),
            restart=RestartOptions(max_failures=failures, backoff_s=0.01),
            tuning=Tuning(
                batch_rows=batch_rows, first_slice_rows=slice_rows, max_slice_rows=slice_rows
            ),
        )
