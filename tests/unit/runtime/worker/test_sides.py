"""Side outputs of operators without an author's function: how they are wired, and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Rows
from mainstay.plan.logical import LogicalGraph
from mainstay.plan.planning import plan_of
from mainstay.runtime.connector import Split
from mainstay.runtime.messages import AssignSplits, Attempt, TaskMetrics
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.make import Make
from mainstay.runtime.spec import JobSpec, SideSpec
from mainstay.runtime.task_metrics import TaskMetricsByTask
from mainstay.runtime.worker.counting import Counts
from mainstay.schema import to_schema

SCHEMA = to_schema("n long")
ROWS = 20
RECEIVED: dict[str, list[int]] = {}


class Late(Operator):
    """Stands for a built-in operator: every third row is late."""

    def open(self, context: Any) -> None:
        assert set(self.sides) == {"late"}, "ways out are there before it is opened"
        super().open(context)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        is_late = pa.array([n % 3 == 0 for n in batch.column("n").to_pylist()])
        self.sides["late"](batch.filter(is_late))
        self.out(batch.filter(pa.compute.invert(is_late)))


def received(name: str) -> Any:
    def note(row: Any) -> Any:
        RECEIVED.setdefault(name, []).append(row.n)
        return row

    return note


def with_late(graph: LogicalGraph) -> LogicalGraph:
    """The graph with a side output on its operator ``f``, which ``read`` and ``far`` read."""
    f = next(op for op in graph.operators if op.uid == "f")
    changed = {"f": replace(f, sides=(SideSpec("late", SCHEMA),))}
    for op in graph.operators:
        if op.uid in ("read", "far"):
            inputs = tuple(replace(each, side="late") for each in op.inputs)
            changed[op.uid] = replace(op, inputs=inputs)
    return replace(graph, operators=tuple(changed.get(op.uid, op) for op in graph.operators))


def planned(*readers: str) -> JobSpec:
    env = ms.Environment(parallelism=1)
    stream = env.source(Rows(SCHEMA, [(n,) for n in range(ROWS)]), uid="in")
    f = stream.map(tuple, SCHEMA, uid="f")
    f.map(received("main"), SCHEMA, uid="main").sink(ms.connectors.Memory())
    for name in readers:
        read = f.rebalance() if name == "far" else f
        read.map(received(name), SCHEMA, uid=name).sink(ms.connectors.Memory())
    job = plan_of(with_late(env.graph()))
    tasks = tuple(
        replace(task, operators=tuple(map(replaced_factory, task.operators))) for task in job.tasks
    )
    return replace(job, tasks=tasks)


def replaced_factory(operator: Any) -> Any:
    return replace(operator, factory=Make(Late, ())) if operator.uid == "f" else operator


@pytest.fixture
def counted(world: Any, start_worker: Any) -> Any:
    """Runs a job to its end in one worker; the figures of the task that emits aside."""

    def run(*readers: str) -> TaskMetrics:
        RECEIVED.clear()
        worker = start_worker(world, planned(*readers)).worker
        split = Split(f"rows-0-{ROWS}", [0, ROWS])
        worker.receive(AssignSplits(Attempt(1), "in", 0, (split,), True))
        while worker.step():
            pass
        task = next(each for each in worker.tasks if each.spec.id == "in")
        return task.metrics()

    return run


LATE = [n for n in range(ROWS) if n % 3 == 0]
IN_TIME = [n for n in range(ROWS) if n % 3]


def test_what_nobody_reads_is_counted_and_dropped(counted: Any) -> None:
    figures = counted()
    assert figures.sides == {"f": {"late": len(LATE)}}
    assert figures.counts["f"] == (ROWS, len(IN_TIME)), "side rows are no rows of the main output"
    assert RECEIVED == {"main": IN_TIME}


def test_what_reads_a_side_gets_its_rows_and_no_others(counted: Any) -> None:
    figures = counted("read")
    assert figures.sides == {"f": {"late": len(LATE)}}
    assert RECEIVED == {"main": IN_TIME, "read": LATE}


def test_a_side_has_several_readers_within_the_chain_and_beyond(counted: Any) -> None:
    figures = counted("read", "far")
    assert figures.sides == {"f": {"late": len(LATE)}}, "rows are counted once"
    assert RECEIVED == {"main": IN_TIME, "read": LATE, "far": LATE}


def test_an_operator_without_side_outputs_has_none() -> None:
    assert dict(Operator().sides) == {}
    with pytest.raises(TypeError):
        Operator().sides["late"] = print  # type: ignore[index]


def test_a_side_is_counted_from_zero_on() -> None:
    counts = Counts()
    emit = counts.emitting_aside("late", lambda batch: None)
    assert counts.sides == {"late": 0}
    emit(pa.record_batch({"n": [1, 2]}))
    emit(pa.record_batch({"n": [3]}))
    assert counts.sides == {"late": 3}
    assert counts.emitted == 0


def test_the_table_of_a_job_says_what_went_aside() -> None:
    figures = TaskMetrics(rows=5, sides={"f": {"late": 1_200, "errors": 0}})
    assert "late 1,200" in repr(TaskMetricsByTask({("f", 0): figures}))
    assert "side outputs" not in repr(TaskMetricsByTask({("f", 0): TaskMetrics(rows=5)}))
