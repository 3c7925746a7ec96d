"""States that sources and sinks declare: which they may have, and what is said of others."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError


class Counted(Memory):
    written = ms.OperatorListState("long")


class Keyed(Memory):
    written = ms.ValueState("long")


class Prepared(Memory):
    handles = ms.OperatorListState("long")


class Committed(Memory):
    commit = ms.OperatorListState("long")  # type: ignore[assignment]


class Seen(Rows):
    seen = ms.OperatorListState("long")


def ended_by(sink: Any) -> ms.Environment:
    env = ms.Environment()
    env.source(Rows("n long", [(1,)]), uid="in").sink(sink, uid="out")
    return env


def test_the_states_of_a_sink_are_those_of_its_operator() -> None:
    states = {
        op.uid: [info.name for info in op.states] for op in ended_by(Counted()).graph().operators
    }
    assert states["out"] == ["handles", "written"]


@pytest.mark.parametrize(
    ("sink", "why"),
    [
        (Keyed, "Keyed declares written as state of the kind value, and a sink has neither a key"),
        (Prepared, "Prepared declares a state 'handles', which is a name that every sink has"),
        (Committed, "Committed declares a state 'commit', which is a name that every sink has"),
    ],
)
def test_others_are_refused(sink: Any, why: str) -> None:
    with pytest.raises(GraphError, match=rf"operator 'out' \(sink\): {why}"):
        ended_by(sink())


def test_a_state_of_an_instance_is_refused() -> None:
    sink = Memory()
    sink.written = ms.OperatorListState("long")  # type: ignore[attr-defined]
    with pytest.raises(GraphError, match="declared on an instance"):
        ended_by(sink)


def test_a_source_keeps_what_it_remembers_in_its_offsets() -> None:
    with pytest.raises(GraphError, match=r"Seen declares state \(seen\).* into the offset"):
        ms.Environment().source(Seen("n long", [(1,)]), uid="in")
