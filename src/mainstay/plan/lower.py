"""From nodes to operators: which class of the runtime does what a node says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from mainstay.plan import nodes
from mainstay.plan.compiling.programs import compiled
from mainstay.plan.event_time import event_time_comes
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.runtime.operators.aggregate import AggregateByKey, Combine, Gathering
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.calling import CallRows
from mainstay.runtime.operators.compiled import CompiledRows
from mainstay.runtime.operators.connected import ConnectedRows
from mainstay.runtime.operators.count_window import CountByKey
from mainstay.runtime.operators.expressions import AddKeyExpression, SelectColumns
from mainstay.runtime.operators.filter import FilterBatches, FilterExpression
from mainstay.runtime.operators.first import KeepFirst, KeepFirstWithin
from mainstay.runtime.operators.groups import KeyedGroups
from mainstay.runtime.operators.initialized import InitializedGroups
from mainstay.runtime.operators.joins.as_of import AsOfJoin
from mainstay.runtime.operators.joins.interval import IntervalJoin, RegularJoin
from mainstay.runtime.operators.joins.until import UntilJoin
from mainstay.runtime.operators.joins.windowed import WindowJoin
from mainstay.runtime.operators.keyed import KeyedBatches, KeyedRows
from mainstay.runtime.operators.loop import LoopHead, LoopTail
from mainstay.runtime.operators.make import Make, MakeWindows
from mainstay.runtime.operators.newest import KeepLast, KeepNewest, KeepNewestWithin
from mainstay.runtime.operators.patterns.arrival import MatchAtOnce
from mainstay.runtime.operators.patterns.in_time import MatchInTime
from mainstay.runtime.operators.rows import (
    AddKey,
    FilterRows,
    FlatMapRows,
    MapBatches,
    MapRows,
    ProcessRows,
)
from mainstay.runtime.operators.session import SessionByKey
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.operators.slicing import SliceCombine
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.operators.timed import TimedConnectedRows, TimedKeyedBatches, TimedKeyedRows
from mainstay.runtime.operators.timed_compiled import TimedCompiledRows
from mainstay.runtime.operators.top import Top
from mainstay.runtime.operators.waiting import WaitingRows
from mainstay.runtime.operators.window import WindowByKey
from mainstay.runtime.spec import OperatorFactory

_TIMED: dict[type[Operator], type[Operator]] = {
    KeyedRows: TimedKeyedRows,
    KeyedBatches: TimedKeyedBatches,
    ConnectedRows: TimedConnectedRows,
    CompiledRows: TimedCompiledRows,
}
"""What does the same for a function with timers."""


def lower(graph: LogicalGraph, operator: LogicalOperator) -> OperatorFactory:
    """What makes the operator on a worker."""
    kind, arguments = _kind(graph, operator)
    if operator.has_timers and kind in _TIMED:
        return Make(_TIMED[kind], (event_time_comes(graph, operator), *arguments))
    results = getattr(operator.node, "results", None)
    if results is not None:
        assert issubclass(kind, Gathering)
        return MakeWindows(kind, arguments, results)
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
        case nodes.MapAsync(function, options):
            return CallRows, (function, options, _taken(graph, operator), out)
        case nodes.Filter(function):
            return FilterRows, (function, _taken(graph, operator))
        case nodes.FilterExpression(expression):
            return FilterExpression, (expression,)
        case nodes.FilterBatches(function):
            return FilterBatches, (function,)
        case nodes.MapBatches(function):
            return MapBatches, (function, out)
        case nodes.Select(columns):
            return SelectColumns, (columns, out)
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
        case nodes.IntervalJoin(shape, interval):
            return IntervalJoin, (shape, interval)
        case nodes.UntilJoin(shape, lower_us):
            return UntilJoin, (shape, lower_us)
        case nodes.WindowJoin(shape, windows):
            return WindowJoin, (shape, windows)
        case nodes.AsOfJoin(shape, max_age_us):
            return AsOfJoin, (shape, max_age_us)
        case nodes.RegularJoin(shape, ttl_us):
            return RegularJoin, (shape, ttl_us)
        case _:
            return _keyed(graph, operator, node)


def _keyed(
    graph: LogicalGraph,
    operator: LogicalOperator,
    node: nodes.Keyed
    | nodes.KeyedBatches
    | nodes.Connected
    | nodes.KeyedGroups
    | nodes.Aggregate
    | nodes.WindowAggregate
    | nodes.SessionAggregate
    | nodes.CountAggregate
    | nodes.Combiner
    | nodes.Deduplicate
    | nodes.Top
    | nodes.Match,
) -> tuple[type[Operator], tuple[Any, ...]]:
    results = getattr(node, "results", None)
    out = operator.schema if results is None else results.taken
    match node:
        case nodes.Keyed(function, key, is_compiled):
            taken = _taken(graph, operator)
            if not is_compiled:
                return KeyedRows, (function, key, taken, out)
            program = compiled(function, key, taken, out, operator.states, operator.uid)
            return CompiledRows, (function, key, taken, out, program)
        case nodes.KeyedBatches(function, key):
            return KeyedBatches, (function, key, _taken(graph, operator), out)
        case nodes.Connected(function, inputs, waits):
            return WaitingRows if waits else ConnectedRows, (function, inputs, out)
        case nodes.KeyedGroups(function, key, times):
            times = replace(times, comes=event_time_comes(graph, operator))
            arguments = (function, key, _taken(graph, operator), times)
            if node.initial is None:
                return KeyedGroups, arguments
            return InitializedGroups, (*arguments, *node.initial)
        case nodes.Combine(aggregation, key, of):
            return Combine, (key, aggregation, out, of)
        case nodes.SliceCombine(aggregation, windows, times, key, of):
            return SliceCombine, (key, aggregation, out, windows, times, of)
        case nodes.WindowAggregate():
            keys = (node.partial_key, node.key)
            key, other_key = keys if node.is_combined else reversed(keys)
            how = (node.windows, node.times, node.emission, node.order, node.visible)
            return WindowByKey, (key, node.aggregation, out, *how, node.is_combined, other_key)
        case nodes.SessionAggregate():
            rows = (node.gaps, node.times, node.emission, node.order, node.visible)
            return SessionByKey, (node.key, node.aggregation, out, *rows)
        case nodes.CountAggregate():
            count = (node.size, node.every, node.order)
            return CountByKey, (node.key, node.aggregation, out, *count)
        case nodes.Aggregate():
            keys = (node.partial_key, node.key)
            key, other_key = keys if node.is_combined else reversed(keys)
            aggregation, order, is_combined = node.aggregation, node.order, node.is_combined
            return AggregateByKey, (key, aggregation, out, order, is_combined, other_key)
        case nodes.Deduplicate():
            return _deduplicating(node, _taken(graph, operator))
        case nodes.Top(key, n, by):
            return Top, (key, _taken(graph, operator), out, n, by)
        case nodes.Match(key, pattern, plain, function, time):
            matching = (key, _taken(graph, operator), out, plain, pattern, function)
            return (MatchAtOnce, matching) if time is None else (MatchInTime, (*time, *matching))


def _deduplicating(
    node: nodes.Deduplicate, schema: pa.Schema
) -> tuple[type[Operator], tuple[Any, ...]]:
    keys, within = (node.key, schema), (node.time, node.within_us)
    if node.keep == "first":
        return (KeepFirst, keys) if node.time is None else (KeepFirstWithin, (*keys, *within))
    if node.by is None:
        return KeepLast, keys
    if node.time is None:
        return KeepNewest, (*keys, node.by)
    return KeepNewestWithin, (*keys, node.by, *within)


def _taken(graph: LogicalGraph, operator: LogicalOperator) -> pa.Schema:
    """The schema of the rows that an operator with one port takes."""
    given = operator.inputs[0]
    return graph.operator(given.upstream).emits(given.side)
