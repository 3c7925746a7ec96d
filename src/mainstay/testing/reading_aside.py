"""Every side output of a job under test is read, so that a test can look at what nobody reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from mainstay.connectors.memory import Memory
from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import Forward, SideSpec


def read_aside(
    graph: LogicalGraph, *, late: bool = True
) -> tuple[LogicalGraph, dict[tuple[str, str], Memory]]:
    """The graph with a sink more for each side output, and these by operator and name.

    Without ``late`` the late rows of windows stay unread: reading them keeps rows from being
    combined before they are sent.
    """
    sinks: dict[tuple[str, str], Memory] = {}
    added: list[LogicalOperator] = []
    for operator in graph.operators:
        for side in operator.sides:
            if side.name == LATE and not late:
                continue
            sink = sinks[operator.uid, side.name] = Memory()
            uid = _free_uid(graph, f"{operator.uid}.{side.name}")
            id = len(graph.operators) + len(added)
            added.append(_reader(operator, side, sink, id, uid))
    return replace(graph, operators=graph.operators + tuple(added)), sinks


def _reader(
    operator: LogicalOperator, side: SideSpec, sink: Memory, id: int, uid: str
) -> LogicalOperator:
    """In the chain of the operator, at any parallelism."""
    return LogicalOperator(
        id=id,
        uid=uid,
        has_own_uid=True,
        name="sink",
        node=nodes.Sink(sink),
        schema=None,
        parallelism=operator.parallelism,
        inputs=(Input(operator.id, Forward(), side=side.name),),
        states=(HANDLES,),
        follows_job=operator.follows_job,
        max_parallelism=operator.max_parallelism,
    )


def _free_uid(graph: LogicalGraph, wanted: str) -> str:
    taken = {operator.uid for operator in graph.operators}
    return next(uid for uid in (f"{wanted}{'~' * n}" for n in count()) if uid not in taken)
