"""The three graphs as text."""

from __future__ import annotations

from mainstay.plan import nodes
from mainstay.plan.chained import Chain, ChainedGraph
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.runtime.spec import Broadcast, Chosen, Forward, HashByKey, JobSpec, Partitioning
from mainstay.schema import format_schema
from mainstay.spelling import counted
from mainstay.state.keygroups import range_of


def explain(logical: LogicalGraph, chained: ChainedGraph, physical: JobSpec) -> str:
    """The logical, the chained and the physical graph, one under the other."""
    return "\n\n".join(
        [_logical(logical), _chained(chained), _physical(physical)],
    )


def described(partitioning: Partitioning) -> str:
    """A partitioning in a word or two."""
    match partitioning:
        case Forward():
            return "forward"
        case Broadcast():
            return "broadcast"
        case HashByKey(key) if key.hidden:
            return "hash(key function)"
        case HashByKey(key):
            return f"hash({', '.join(key.names)})"
        case Chosen(chooser):
            return f"partition({chooser.text})"
        case _:
            return "rebalance"


def _logical(graph: LogicalGraph) -> str:
    lines = [f"Logical graph ({graph.mode}, max_parallelism {graph.max_parallelism})"]
    for operator in graph.operators:
        how = _schema(operator) + _most(operator) + _compiled(operator)
        lines.append(f"  {operator.uid}: {operator.name}{how}")
        lines.extend(f"      state {_state(operator, n)}" for n in range(len(operator.states)))
        for side in operator.sides:
            lines.append(f"      side output {side.name} -> {format_schema(side.schema)}")
        for given in operator.inputs:
            upstream = graph.operator(given.upstream).uid + _side(given.side)
            how = described(given.partitioning)
            lines.append(f"      reads {upstream} by {how}{_named(operator, given)}")
    return "\n".join(lines)


def _named(operator: LogicalOperator, given: Input) -> str:
    """The name of an input, where it has one."""
    if not isinstance(operator.node, nodes.Connected):
        return ""
    return f" as {operator.node.inputs[given.port].name}"


def _side(name: str) -> str:
    return f" ({name})" if name else ""


def _schema(operator: LogicalOperator) -> str:
    return "" if operator.schema is None else f" -> {format_schema(operator.schema)}"


def _most(operator: LogicalOperator) -> str:
    own = operator.max_parallelism
    return "" if own is None else f" (max_parallelism {own})"


def _compiled(operator: LogicalOperator) -> str:
    return ", compiled" if getattr(operator.node, "is_compiled", False) else ""


def _state(operator: LogicalOperator, number: int) -> str:
    info = operator.states[number]
    types = info.value.ddl if info.map_key is None else f"{info.map_key.ddl}, {info.value.ddl}"
    how = "" if info.redistribute is None else f", {info.redistribute}"
    namespace = "" if info.namespace is None else f", by namespace {info.namespace.ddl}"
    return f"{info.name}: {info.kind.name}({types}{namespace}{how})"


def _chained(graph: ChainedGraph) -> str:
    lines = ["Chained graph"]
    lines.extend(f"  {_chain(chain)}" for chain in graph.chains)
    return "\n".join(lines)


def _chain(chain: Chain) -> str:
    names = " -> ".join(operator.uid for operator in chain.operators)
    return f"[{names}] x {chain.parallelism}"


def _physical(job: JobSpec) -> str:
    lines = [f"Physical graph ({counted(job.workers, 'worker')})"]
    for task in job.tasks:
        for subtask in range(task.parallelism):
            keyed = any(operator.key is not None for operator in task.operators)
            most = job.key_groups(task.operators[0])
            groups = range_of(subtask, task.parallelism, most)
            owned = f", key-groups {groups.first}-{groups.last}" if keyed else ""
            lines.append(f"  {task.id}[{subtask}] on worker {subtask}{owned}")
        for edge in task.outputs:
            how = described(edge.partitioning) + _side(edge.side)
            lines.append(f"      {edge.channels} channels by {how} to {edge.receiver}")
    return "\n".join(lines)
