"""The physical graph: P subtasks a chain, a channel for each pair of subtasks that are joined."""

from __future__ import annotations

from dataclasses import replace

from mainstay.plan.chained import Chain, ChainedGraph
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.spec import (
    EdgeSpec,
    Forward,
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
    for receiver in graph.chains:
        for given in receiver.inputs:
            edge = _edge(graph, receiver, given, first_channel)
            first_channel += edge.channels
            edges.append(edge)
    tasks = tuple(_task(chain, edges) for chain in graph.chains)
    return JobSpec(tasks, graph.logical.max_parallelism, graph.logical.mode)


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


def _task(chain: Chain, edges: list[EdgeSpec]) -> TaskSpec:
    operators = tuple(
        replace(_operator(operator), upstream=upstream)
        for operator, upstream in zip(chain.operators, chain.upstream, strict=True)
    )
    return TaskSpec(
        id=chain.id,
        parallelism=chain.parallelism,
        operators=operators,
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
