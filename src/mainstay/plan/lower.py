"""From nodes to operators: which class of the runtime does what a node says."""

from __future__ import annotations

from typing import Any, assert_never

import pyarrow as pa

from mainstay.plan import nodes
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.runtime.operators.aggregate import AggregateByKey, Combine
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.expressions import AddKeyExpression
from mainstay.runtime.operators.filter import FilterBatches, FilterExpression
from mainstay.runtime.operators.keyed import CoKeyedRows, KeyedBatches, KeyedRows
from mainstay.runtime.operators.loop import LoopHead, LoopTail
from mainstay.runtime.operators.make import Make
from mainstay.runtime.operators.rows import (
    AddKey,
    FilterRows,
    FlatMapRows,
    MapBatches,
    MapRows,
    ProcessRows,
)
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.spec import OperatorFactory


def lower(graph: LogicalGraph, operator: LogicalOperator) -> OperatorFactory:
    """What makes the operator on a worker."""
    kind, arguments = _kind(graph, operator)
    return Make(kind, arguments)


def _kind(graph: LogicalGraph, operator: LogicalOperator) -> tuple[type[Operator], tuple[Any, ...]]:
    node, out = operator.node, operator.schema
    match node:
        case nodes.Source(source, time):
            return SourceOperator, (source, time)
        case nodes.Sink(sink):
            return SinkOperator, (sink,)
        case nodes.Map(function):
            return MapRows, (function, _taken(graph, operator), out)
        case nodes.FlatMap(function):
            return FlatMapRows, (function, _taken(graph, operator), out)
        case nodes.Filter(function):
            return FilterRows, (function, _taken(graph, operator))
        case nodes.FilterExpression(expression):
            return FilterExpression, (expression,)
        case nodes.FilterBatches(function):
            return FilterBatches, (function,)
        case nodes.MapBatches(function):
            return MapBatches, (function, out)
        case nodes.Process(function):
            return ProcessRows, (function, _taken(graph, operator), out)
        case nodes.KeyByFunction(function, field):
            return AddKey, (function, _taken(graph, operator), field)
        case nodes.KeyByExpression(expression, field):
            return AddKeyExpression, (expression, field)
        case nodes.LoopHead(memory_bytes):
            return LoopHead, (out, memory_bytes)
        case nodes.LoopTail(_, column, max_rounds):
            return LoopTail, (column, max_rounds)
        case _:
            return _keyed(graph, operator, node)


def _keyed(
    graph: LogicalGraph,
    operator: LogicalOperator,
    node: nodes.Keyed | nodes.KeyedBatches | nodes.CoKeyed | nodes.Aggregate | nodes.Combine,
) -> tuple[type[Operator], tuple[Any, ...]]:
    out = operator.schema
    match node:
        case nodes.Keyed(function, key):
            return KeyedRows, (function, key, _taken(graph, operator), out)
        case nodes.KeyedBatches(function, key):
            return KeyedBatches, (function, key, _taken(graph, operator), out)
        case nodes.CoKeyed(function, keys, schemas):
            return CoKeyedRows, (function, keys, schemas, out)
        case nodes.Combine(aggregation, key, of):
            return Combine, (key, aggregation, out, of)
        case nodes.Aggregate():
            keys = (node.partial_key, node.key)
            key, other_key = keys if node.is_combined else reversed(keys)
            aggregation, order, is_combined = node.aggregation, node.order, node.is_combined
            return AggregateByKey, (key, aggregation, out, order, is_combined, other_key)
        case _:
            assert_never(node)


def _taken(graph: LogicalGraph, operator: LogicalOperator) -> pa.Schema:
    """The schema of the rows that an operator with one port takes."""
    schema = graph.operator(operator.inputs[0].upstream).schema
    assert schema is not None
    return schema
