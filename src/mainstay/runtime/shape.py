"""The shape of a job: its operators, the edges between them, and tasks, for people to look at."""

from __future__ import annotations

from collections.abc import Iterator

from mainstay.runtime.spec import (
    Broadcast,
    Chosen,
    Forward,
    HashByKey,
    JobSpec,
    OperatorSpec,
    Partitioning,
    TaskSpec,
)
from mainstay.snapshot.graphs import Graph, GraphEdge, GraphOperator, GraphTask


def shape_of(spec: JobSpec) -> Graph:
    """The dataflow at the parallelism that the job has."""
    return Graph(
        tuple(_operator(task, each) for task, each in spec.operators()),
        tuple(edge for task in spec.tasks for edge in _edges(spec, task)),
        tuple(
            GraphTask(task.id, tuple(each.uid for each in task.operators), task.parallelism)
            for task in spec.tasks
        ),
    )


def _operator(task: TaskSpec, operator: OperatorSpec) -> GraphOperator:
    return GraphOperator(
        operator.uid,
        _kind(operator),
        operator.name,
        task.parallelism,
        task.id,
        tuple(state.name for state in operator.states),
    )


def _kind(operator: OperatorSpec) -> str:
    if operator.source is not None:
        return "source"
    if operator.sink is not None:
        return "sink"
    if operator.loop is not None:
        return "loop"
    return "keyed" if operator.key is not None else "rows"


def _edges(spec: JobSpec, task: TaskSpec) -> Iterator[GraphEdge]:
    for operator in task.operators:
        if operator.upstream is not None:
            sender = task.operators[operator.upstream].uid
            yield GraphEdge(sender, operator.uid, "forward", operator.side)
        if operator.loop is not None and not operator.loop.is_head:
            yield GraphEdge(operator.uid, operator.loop.head, "loop")
    heads = {each.id: each.operators[0].uid for each in spec.tasks}
    for edge in task.outputs:
        sender = task.operators[edge.sender_operator].uid
        kind = _edge_kind(edge.partitioning)
        yield GraphEdge(sender, heads[edge.receiver], kind, edge.side)


def _edge_kind(partitioning: Partitioning) -> str:
    match partitioning:
        case Forward():
            return "forward"
        case HashByKey():
            return "key"
        case Chosen():
            return "partition"
        case Broadcast():
            return "broadcast"
        case _:
            return "rebalance"
