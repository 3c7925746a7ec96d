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
from typing import Any

from mainstay.api.environment import Environment
from mainstay.api.graph import of_its_own
from mainstay.connectors.memory import Memory, Rows
from mainstay.errors import GraphError
from mainstay.own_frames import own_frames
from mainstay.plan import nodes
from mainstay.plan.check import check_graph
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.plan.planning import plan_of
from mainstay.quantities import whole_number
from mainstay.runtime.connector import Source
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.options import JobOptions, RestartOptions, SnapshotOptions
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.status import AttemptRecord
from mainstay.schema import format_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import Storage
from mainstay.spelling import did_you_mean
from mainstay.testing.inspect import committed_state
from mainstay.testing.processes import SimulatedClock
from mainstay.testing.replacing import ReplacingEnvironment
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

BATCH_ROWS = 64
FEW_ROWS = 4
SHORT_RUN_STEPS = 400
"""A run of fewer steps would be over before there is an epoch for a crash to go back to: it goes by
batches of a few rows."""


def rows(schema: Any, values: Sequence[Any], *, splits: int = 1) -> Rows:
    """A source of given rows. With more than one split, several subtasks read it at once."""
    return Rows(schema, values, splits=splits)


@dataclass(frozen=True, slots=True)
class Result:
    """What a finished run came to."""

    job: JobSpec
    storage: Storage
    sinks: Mapping[str, Memory]
    simulation: Simulation

    def output(self, uid: str) -> list[tuple[Any, ...]]:
        """The committed rows of a sink, in the order of their commits."""
        if uid not in self.sinks:
            raise KeyError(f"there is no sink {uid!r}; the job has {sorted(self.sinks)}")
        return self.sinks[uid].rows()

    def state(self, uid: str, name: str) -> Any:
        """A state at the last epoch: key to value, or for operator state a list per subtask."""
        return committed_state(self.storage, self.job, uid, name)

    @property
    def snapshots(self) -> RecordList[EpochRecord]:
        """The epochs, oldest first, as ``job.snapshots()`` gives them."""
        return RecordList("epochs", self.simulation.records)

    @property
    def attempts(self) -> RecordList[AttemptRecord]:
        """The attempts, as ``job.attempts()`` gives them."""
        return RecordList("attempts", self.simulation.attempts)


@own_frames
def run(
    build: Callable[[Environment], Any],
    inputs: Mapping[str, Source] | None = None,
    *,
    parallelism: int = 2,
    max_parallelism: int = 128,
    seed: int = 0,
    crashes: int = 0,
    rescales: Sequence[int] = (),
    storage_faults: int = 0,
    mode: str = "exactly_once",
    clock: SimulatedClock | None = None,
) -> Result:
    """Run a bounded job to its end under a seed.

    ``build`` gets an environment and writes the job into it, as the real program would. Sources
    whose uid is in ``inputs`` are replaced, and what they name (files, servers) need not exist
    here; every sink is replaced by one in memory. Crashes
    hit workers and the coordinator while the job runs. Raises what made the job fail.

    It is rescaled to each of ``rescales``, at steps that the seed decides. A rescale that is asked
    for during another is refused and noted in ``result.simulation.requests.refusals``.
    """
    environment = ReplacingEnvironment(
        inputs or {}, parallelism=parallelism, max_parallelism=max_parallelism, mode=mode
    )
    environment.check_rescales(rescales)
    for name, number in (("seed", seed), ("crashes", crashes), ("storage_faults", storage_faults)):
        whole_number(number, name, least=0, where="run")
    build(environment)
    settings = SimulationSettings(seed=seed, storage_faults=storage_faults)
    batch_rows, sources = BATCH_ROWS, inputs or {}
    if crashes or rescales:
        # They are drawn over the length of a run, which a first run without them tells.
        steps = _run_once(environment, sources, settings, None, batch_rows).simulation.steps
        if steps < SHORT_RUN_STEPS:
            batch_rows = FEW_ROWS
            steps = _run_once(environment, sources, settings, None, batch_rows).simulation.steps
        settings = replace(
            settings,
            crashes=crashes,
            rescales=tuple(rescales),
            crash_within_steps=max(steps - 1, 1),
        )
    return _run_once(environment, sources, settings, clock, batch_rows)


def _run_once(
    environment: Environment,
    inputs: Mapping[str, Source],
    settings: SimulationSettings,
    clock: SimulatedClock | None,
    batch_rows: int,
) -> Result:
    graph, sinks = replaced(environment.graph(), inputs)
    check_graph(graph)
    job = plan_of(graph)
    failures = settings.crashes + settings.storage_faults + 1
    slice_rows = min(batch_rows, 16)
    options = JobOptions(
        name="test",
        lineage="test",
        snapshots=SnapshotOptions(every_s=0.01, tolerable_failures=1000, timeout_s=5.0),
        restart=RestartOptions(max_failures=failures, backoff_s=0.01),
        tuning=Tuning(
            batch_rows=batch_rows, first_slice_rows=slice_rows, max_slice_rows=slice_rows
        ),
    )
    storage = MemoryStorage()
    simulation = Simulation(
        job, options, settings, storage, clock, plan_at=lambda n: plan_of(graph.at(n))
    )
    simulation.run()
    if simulation.coordinator.error is not None:
        raise simulation.coordinator.error
    return Result(job, storage, sinks, simulation)


def replaced(
    graph: LogicalGraph, inputs: Mapping[str, Source], make_sink: Callable[[], Memory] = Memory
) -> tuple[LogicalGraph, dict[str, Memory]]:
    """The graph with test sources and sinks in it, and the sinks."""
    sinks: dict[str, Memory] = {}
    operators: list[LogicalOperator] = []
    for operator in graph.operators:
        if operator.is_sink:
            sink = sinks[operator.uid] = make_sink()
            operator = replace(operator, node=nodes.Sink(sink))
        elif operator.uid in inputs:
            taken = [other.source for other in operators]
            operator = _with_source(operator, of_its_own(inputs[operator.uid], taken))
        operators.append(operator)
    unknown = sorted(set(inputs) - {operator.uid for operator in operators})
    if unknown:
        known = sorted(operator.uid for operator in operators if operator.source is not None)
        raise GraphError(
            f"inputs names {unknown}, but the job's sources are {known}."
            f"{did_you_mean(unknown[0], known)}"
        )
    return replace(graph, operators=tuple(operators)), sinks


def _with_source(operator: LogicalOperator, source: Source) -> LogicalOperator:
    if not isinstance(operator.node, nodes.Source):
        raise GraphError(f"inputs names {operator.uid!r}, which is no source.")
    if not isinstance(source, Source):
        raise GraphError(
            f"the input for {operator.uid!r} is a {type(source).__name__}; give it as "
            'rows("schema", [...]).'
        )
    if source.schema != operator.schema:
        assert operator.schema is not None
        raise GraphError(
            f"the rows given for source {operator.uid!r} have the schema "
            f"{format_schema(source.schema)!r}, the job's source has "
            f"{format_schema(operator.schema)!r}."
        )
    return replace(operator, node=replace(operator.node, source=source))
