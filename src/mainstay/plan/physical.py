"""The physical graph: P subtasks a chain, a channel for each pair of subtasks that are joined."""

from __future__ import annotations

from dataclasses import replace

from mainstay.plan.chained import Chain, ChainedGraph
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.channel_state import INCOMING, OUTGOING
from mainstay.runtime.spec import (
    EdgeSpec,
    Forward,
    JobSpec,
    OperatorSpec,
    Partitioning,
    Rebalance,
    TaskSpec,
)
from mainstay.state.declaration import StateInfo


def expand(graph: ChainedGraph) -> JobSpec:
    """Tasks and channels for every chain and every edge between chains."""
    edges: list[EdgeSpec] = []
    first_channel = 0
    for receiver in graph.chains:
        for given in receiver.inputs:
            edge = _edge(graph, receiver, given, first_channel)
            first_channel += edge.channels
            edges.append(edge)
    states = (INCOMING, OUTGOING) if graph.logical.mode == "unaligned" else ()
    looped = _in_loops(graph, edges)
    tasks = tuple(
        replace(_task(chain, edges, states), is_in_loop=chain.id in looped)
        for chain in graph.chains
    )
    return JobSpec(tasks, graph.logical.max_parallelism, graph.logical.mode)


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


def _edge(graph: ChainedGraph, receiver: Chain, given: Input, first_channel: int) -> EdgeSpec:
    sender, place = graph.place(given.upstream)
    schema = graph.logical.operator(given.upstream).schema
    assert schema is not None
    return EdgeSpec(
        first_channel=first_channel,
        sender=sender.id,
        sender_operator=place,
        sender_parallelism=sender.parallelism,
        receiver=receiver.id,
        receiver_parallelism=receiver.parallelism,
        port=given.port,
        partitioning=_partitioning(given, sender, receiver),
        schema=schema,
    )


def _partitioning(given: Input, sender: Chain, receiver: Chain) -> Partitioning:
    """Forward is possible only between equals; otherwise rows are dealt out in turn."""
    if isinstance(given.partitioning, Forward) and sender.parallelism != receiver.parallelism:
        return Rebalance()
    return given.partitioning


def _task(chain: Chain, edges: list[EdgeSpec], channel_states: tuple[StateInfo, ...]) -> TaskSpec:
    operators = [
        replace(_operator(operator), upstream=upstream)
        for operator, upstream in zip(chain.operators, chain.upstream, strict=True)
    ]
    # The rows on their way to and from a task are kept with the first operator of its chain.
    operators[0] = replace(operators[0], states=operators[0].states + channel_states)
    return TaskSpec(
        id=chain.id,
        parallelism=chain.parallelism,
        operators=tuple(operators),
        inputs=tuple(edge for edge in edges if edge.receiver == chain.id),
        outputs=tuple(edge for edge in edges if edge.sender == chain.id),
    )


def _operator(operator: LogicalOperator) -> OperatorSpec:
    return OperatorSpec(
        uid=operator.uid,
        name=operator.name,
        factory=operator.factory,
        states=operator.states,
        key=operator.key,
        source=operator.source,
        sink=operator.sink,
        loop=operator.loop,
    )
