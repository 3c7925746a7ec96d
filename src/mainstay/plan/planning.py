"""From what the author wrote to what runs: combiners, chains, subtasks and channels."""

from __future__ import annotations

from mainstay.plan.chained import ChainedGraph, chain
from mainstay.plan.combining import combined
from mainstay.plan.logical import LogicalGraph
from mainstay.plan.physical import expand
from mainstay.runtime.spec import JobSpec


def plan_of(graph: LogicalGraph) -> JobSpec:
    """The physical graph, at the parallelism that the logical one has."""
    return expand(chained(graph))


def chained(graph: LogicalGraph) -> ChainedGraph:
    """The operators that run, fused where they can be."""
    return chain(combined(graph))
