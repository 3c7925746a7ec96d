"""The sources and sinks of a test in the places of a job's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mainstay.api.graph import of_its_own
from mainstay.connectors.memory import Memory
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.runtime.connector import Source
from mainstay.schema import format_schema
from mainstay.spelling import did_you_mean
from mainstay.testing.listed import Listed
from mainstay.testing.script import Stage


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
            f"the input for {operator.uid!r} is a {type(source).__name__}; give it as a list, "
            'or as rows("schema", [...]).'
        )
    if source.schema != operator.schema:
        assert operator.schema is not None
        raise GraphError(
            f"the rows given for source {operator.uid!r} have the schema "
            f"{format_schema(source.schema)!r}, the job's source has "
            f"{format_schema(operator.schema)!r}."
        )
    return replace(operator, node=replace(operator.node, source=source))


def on_stage(
    graph: LogicalGraph, inputs: Mapping[str, Source], stage: Stage, *, every_row: bool
) -> LogicalGraph:
    """The graph with its lists in a run, each in as many splits as its source has subtasks."""

    def placed(operator: LogicalOperator) -> LogicalOperator:
        node, given = operator.node, inputs.get(operator.uid)
        if not isinstance(given, Listed) or not isinstance(node, nodes.Source):
            return operator
        if node.time is None and (given.speaks_of_time or every_row):
            what = "watermark_every_row=True" if every_row else "Watermark(...) or idle()"
            raise GraphError(
                f"source {operator.uid!r} of the job makes no watermarks, so that {what} says "
                'nothing for it: give the source watermark=ms.Watermark("column").'
            )
        if node.time is not None and every_row:
            given = given.after_every_row(node.time)
        source = given.on(stage, operator.uid, operator.parallelism)
        # Watermarks are where the list says, however soon after one another.
        time = node.time and replace(node.time, every_s=0.0, from_rows=False)
        return replace(operator, node=nodes.Source(source, time))

    return replace(graph, operators=tuple(map(placed, graph.operators)))
