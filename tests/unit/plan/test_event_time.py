"""Operators that wait for event time are refused where it cannot come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.event_time import check_event_time
from mainstay.plan.logical import LogicalGraph


@dataclass(frozen=True, slots=True)
class Waiting(nodes.Map):
    """A node that waits for event time."""

    needs_time = True


def build(watermark: Any, body: Any) -> LogicalGraph:
    env = ms.Environment(spark="embedded")
    source = env.source(
        ms.connectors.Rows("n long, at timestamp", []), uid="in", watermark=watermark
    )
    body(env, source)
    return env._builder.graph(128, "exactly_once")


def waiting(stream: Any, uid: str = "wait") -> Any:
    return stream._then("wait", Waiting(lambda row: row), stream.schema, {"uid": uid})


def test_a_watermark_upstream_is_enough() -> None:
    def body(env: Any, source: Any) -> None:
        other = env.source(ms.connectors.Rows("n long, at timestamp", []), uid="other")
        waiting(source.union(other).map(lambda row: row, "n long, at timestamp"))

    check_event_time(build(ms.Watermark("at"), body))


def test_without_one_the_error_names_the_operator_the_sources_and_the_remedy() -> None:
    graph = build(None, lambda env, source: waiting(source))
    with pytest.raises(GraphError, match=r"'wait'.*source 'in' has no watermark.*ms\.Watermark"):
        check_event_time(graph)


def test_a_watermark_elsewhere_does_not_count() -> None:
    def body(env: Any, source: Any) -> None:
        timed = ms.connectors.Rows("n long, at timestamp", [])
        env.source(timed, uid="timed", watermark=ms.Watermark("at"))
        waiting(source)

    with pytest.raises(GraphError, match="'in' has no watermark"):
        check_event_time(build(None, body))


@pytest.mark.parametrize("where", ["before", "within", "behind"])
def test_within_a_loop_it_is_refused(where: str) -> None:
    def body(env: Any, source: Any) -> None:
        def loop(entering: Any) -> tuple[Any, Any]:
            moved = waiting(entering) if where == "within" else entering.filter(bool)
            return moved, moved

        given = waiting(source, "wait") if where == "before" else source
        out = given.iterate(loop, uid="loop")
        if where == "behind":
            waiting(out)

    graph = build(ms.Watermark("at"), body)
    if where != "within":
        check_event_time(graph)
        return
    with pytest.raises(GraphError, match=r"'wait'.*within the loop 'loop'"):
        check_event_time(graph)
