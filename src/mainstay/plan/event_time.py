"""Checks of operators that wait for event time: that it can come to them at all."""

from __future__ import annotations

from collections.abc import Iterator

from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import LogicalGraph, LogicalOperator

_WINDOWS = (nodes.WindowAggregate, nodes.SessionAggregate)


def check_event_time(graph: LogicalGraph) -> None:
    """Refuse operators that would wait for ever, and those whose rows come back."""
    before = _upstream(graph)
    for operator in graph.operators:
        if operator.needs_time:
            _check_sources(operator, [graph.operator(id) for id in sorted(before[operator.id])])
            _check_no_loop(graph, operator, before)


def event_time_comes(graph: LogicalGraph, operator: LogicalOperator) -> bool:
    """Whether event time can come to an operator that may do without."""
    before = _upstream(graph)
    try:
        _check_sources(operator, [graph.operator(id) for id in sorted(before[operator.id])])
        _check_no_loop(graph, operator, before)
    except GraphError:
        return False
    return True


def short_of_lateness(
    graph: LogicalGraph,
) -> Iterator[tuple[LogicalOperator, LogicalOperator]]:
    """Windows of results of windows that come later than they take rows, each with those before."""
    for operator in graph.operators:
        node = operator.node
        if isinstance(node, _WINDOWS) and node.times.shift_us:
            for before in _nearest_windows(graph, operator):
                if lateness_s(before) > lateness_s(operator):
                    yield operator, before


def lateness_s(operator: LogicalOperator) -> float:
    """By how much results of windows may be behind the watermark."""
    assert isinstance(operator.node, _WINDOWS)
    return operator.node.emission.lateness_us / 1_000_000


def _nearest_windows(graph: LogicalGraph, operator: LogicalOperator) -> Iterator[LogicalOperator]:
    left, seen = [each.upstream for each in operator.inputs], set[int]()
    while left:
        before = graph.operator(left.pop())
        if before.id in seen:
            continue
        seen.add(before.id)
        if isinstance(before.node, _WINDOWS):
            yield before
        else:
            left += [each.upstream for each in before.inputs]


def _upstream(graph: LogicalGraph) -> dict[int, frozenset[int]]:
    """By operator, all that it reads from, directly or not."""
    found: dict[int, frozenset[int]] = {}
    for operator in graph.operators:
        direct = frozenset(given.upstream for given in operator.inputs)
        found[operator.id] = direct.union(*(found[id] for id in direct))
    return found


def _check_sources(operator: LogicalOperator, before: list[LogicalOperator]) -> None:
    sources = [each for each in before if isinstance(each.node, nodes.Source)]
    if any(each.node.time is not None for each in sources if isinstance(each.node, nodes.Source)):
        return
    named = " and ".join(repr(each.uid) for each in sources)
    raise GraphError(
        f"operator {operator.uid!r} ({operator.name}) waits for event time, but the source {named} "
        "has no watermark, so it would wait for ever. Say which column has the time of an event: "
        'env.source(..., watermark=ms.Watermark("at", delay="10s")), or use processing time.'
    )


def _check_no_loop(
    graph: LogicalGraph, operator: LogicalOperator, before: dict[int, frozenset[int]]
) -> None:
    """Within a loop rows that come back may be late for everything: event time does not wait for
    them."""
    heads = {graph.operator(id).uid for id in before[operator.id]}
    for tail in graph.operators:
        loop = tail.loop
        is_within = loop is not None and not loop.is_head and loop.head in heads
        if is_within and operator.id in before[tail.id]:
            assert loop is not None
            raise GraphError(
                f"operator {operator.uid!r} ({operator.name}) waits for event time within the loop "
                f"{loop.head!r}. Event time does not wait for rows that come back, so they could "
                "all be late. Put it before the loop or behind it."
            )
