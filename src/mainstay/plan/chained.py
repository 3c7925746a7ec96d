"""The chained graph: operators that can run as one are fused, so that rows pass by calls.

An operator joins the chain of the one before it when that is its only input, the rows are not
redistributed, and both run with the same parallelism. A chain may branch.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.runtime.spec import Forward


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators fused into one task, head first. ``upstream[i]`` is the place of i's input."""

    operators: tuple[LogicalOperator, ...]
    upstream: tuple[int | None, ...]

    @property
    def id(self) -> str:
        return self.operators[0].uid

    @property
    def parallelism(self) -> int:
        return self.operators[0].parallelism

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.operators[0].inputs


@dataclass(frozen=True, slots=True)
class ChainedGraph:
    """All chains, each after those it reads from, and the chain each operator went into."""

    chains: tuple[Chain, ...]
    chain_of: dict[int, int]
    logical: LogicalGraph

    def place(self, operator: int) -> tuple[Chain, int]:
        """The chain of an operator and its place in it."""
        chain = self.chains[self.chain_of[operator]]
        ids = [member.id for member in chain.operators]
        return chain, ids.index(operator)


def chain(graph: LogicalGraph) -> ChainedGraph:
    """Fuse what can be fused."""
    members: list[list[LogicalOperator]] = []
    upstream: list[list[int | None]] = []
    chain_of: dict[int, int] = {}
    for operator in graph.operators:
        if _joins(operator, graph):
            number = chain_of[operator.inputs[0].upstream]
            ids = [member.id for member in members[number]]
            upstream[number].append(ids.index(operator.inputs[0].upstream))
            members[number].append(operator)
        else:
            number = len(members)
            members.append([operator])
            upstream.append([None])
        chain_of[operator.id] = number
    chains = tuple(Chain(tuple(m), tuple(u)) for m, u in zip(members, upstream, strict=True))
    return ChainedGraph(chains, chain_of, graph)


def _joins(operator: LogicalOperator, graph: LogicalGraph) -> bool:
    if len(operator.inputs) != 1 or (operator.loop is not None and operator.loop.is_head):
        return False
    given = operator.inputs[0]
    before = graph.operator(given.upstream)
    how = given.partitioning
    is_chained = isinstance(how, Forward) and how.is_chained
    return is_chained and before.parallelism == operator.parallelism
