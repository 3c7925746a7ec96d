"""The physical graph: P subtasks a chain, a channel for each pair of subtasks that are joined."""

from __future__ import annotations

from dataclasses import replace

from mainstay.plan.chained import Chain, ChainedGraph
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.plan.lower import lower
from mainstay.plan.wiring import wiring_of
from mainstay.runtime.edge_names import EdgeName
from mainstay.runtime.own_states import INCOMING, OUTGOING
from mainstay.runtime.spec import (
    EdgeSpec,
    Forward,
    InputSpec,
    JobSpec,
    OperatorSpec,
    Partitioning,
    Rebalance,
    TaskSpec,
)


def expand(graph: ChainedGraph) -> JobSpec:
    """Tasks and channels for every chain and every edge between chains."""
    edges: list[EdgeSpec] = []
    first_channel = 0
    wiring = wiring_of(graph.logical)
    for receiver in graph.chains:
        for given in receiver.inputs:
            edge = _edge(graph, receiver, given, first_channel, wiring)
            first_channel += edge.channels
            edges.append(edge)
    looped = _in_loops(graph, edges)
    tasks = tuple(
        replace(_task(graph, chain, edges, wiring), is_in_loop=chain.id in looped)
        for chain in graph.chains
    )
    return JobSpec(
        tasks,
        graph.logical.max_parallelism,
        graph.logical.mode,
        keeps_in_flight=_keeps_in_flight(graph.logical),
    )


def _keeps_in_flight(graph: LogicalGraph) -> bool:
    """Whether markers may ever overtake rows; not where a program has a state of such a name.

    With ``mode="unaligned"`` the name is refused.
    """
    reserved = {info.name for info in (INCOMING, OUTGOING)}
    names = {info.name for operator in graph.operators for info in operator.states}
    return graph.mode != "at_least_once" and not reserved & names


def _in_loops(graph: ChainedGraph, edges: list[EdgeSpec]) -> set[str]:
    """The chains on the way from the head of a loop to its tail, both included."""
    ends = [(op.loop, chain.id) for chain in graph.chains for op in chain.operators if op.loop]
    heads = {loop.head: chain for loop, chain in ends if loop.is_head}
    after: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for edge in edges:
        after.setdefault(edge.sender, set()).add(edge.receiver)
        before.setdefault(edge.receiver, set()).add(edge.sender)
    found: set[str] = set()
    for loop, chain in ends:
        if not loop.is_head:
            found |= _reached(heads[loop.head], after) & _reached(chain, before)
    return found


def _reached(start: str, steps: dict[str, set[str]]) -> set[str]:
    found, new = {start}, {start}
    while new:
        new = {chain for each in new for chain in steps.get(each, ())} - found
        found |= new
    return found


def _edge(
    graph: ChainedGraph, receiver: Chain, given: Input, first_channel: int, wiring: str
) -> EdgeSpec:
    sender, place = graph.place(given.upstream)
    head, upstream = receiver.operators[0], graph.logical.operator(given.upstream)
    partitioning = _partitioning(given, upstream, head)
    kind = type(partitioning).__name__
    own_wiring = None if head.has_own_uid else wiring
    return EdgeSpec(
        first_channel=first_channel,
        sender=sender.id,
        sender_operator=place,
        sender_parallelism=sender.parallelism,
        receiver=receiver.id,
        receiver_parallelism=receiver.parallelism,
        port=given.port,
        partitioning=partitioning,
        schema=upstream.emits(given.side),
        name=EdgeName(upstream.uid, kind, head.uid, given.port, own_wiring, side=given.side),
    )


def _partitioning(given: Input, sender: LogicalOperator, receiver: LogicalOperator) -> Partitioning:
    """Forward is possible only between equals; otherwise batches go round-robin."""
    if isinstance(given.partitioning, Forward) and sender.parallelism != receiver.parallelism:
        return Rebalance()
    return given.partitioning


def _task(graph: ChainedGraph, chain: Chain, edges: list[EdgeSpec], wiring: str) -> TaskSpec:
    operators = tuple(
        replace(_operator(graph.logical, operator, wiring), upstream=upstream)
        for operator, upstream in zip(chain.operators, chain.upstream, strict=True)
    )
    return TaskSpec(
        id=chain.id,
        parallelism=chain.parallelism,
        operators=operators,
        inputs=tuple(edge for edge in edges if edge.receiver == chain.id),
        outputs=tuple(edge for edge in edges if edge.sender == chain.id),
    )


def _operator(graph: LogicalGraph, operator: LogicalOperator, wiring: str) -> OperatorSpec:
    return OperatorSpec(
        uid=operator.uid,
        name=operator.name,
        factory=lower(graph, operator),
        states=operator.states,
        key=operator.key,
        source=operator.source,
        sink=operator.sink,
        loop=operator.loop,
        inputs=tuple(_input(graph, operator, given) for given in operator.inputs),
        other_forms=operator.other_forms,
        wiring=None if operator.has_own_uid else wiring,
        needs_time=operator.needs_time,
        sides=operator.sides,
        given_up=getattr(operator.node, "given_up", ()),
        max_parallelism=operator.max_parallelism,
    )


def _input(graph: LogicalGraph, operator: LogicalOperator, given: Input) -> InputSpec:
    upstream = graph.operator(given.upstream)
    partitioning = _partitioning(given, upstream, operator)
    schema = upstream.emits(given.side)
    return InputSpec(upstream.uid, given.port, partitioning, schema, given.side)
