"""Which states of their own sources and sinks may have."""

from __future__ import annotations

from mainstay.errors import GraphError
from mainstay.runtime.connector import Sink, Source
from mainstay.runtime.own_states import HANDLES
from mainstay.state.declared_states import declarations_of
from mainstay.state.info import StateInfo
from mainstay.state.kinds import OPERATOR_LIST


def sink_states(sink: Sink, where: str) -> tuple[StateInfo, ...]:
    """All states of the operator of a sink: what it has prepared, and what its class declares."""
    states = declarations_of(sink)
    cls = type(sink).__name__
    for info in states:
        if info.kind != OPERATOR_LIST:
            raise GraphError(
                f"{where}: {cls} declares {info.name} as state of the kind {info.kind.name}, and a "
                "sink has neither a key nor a broadcast input. Declare an OperatorListState, whose "
                "elements a rescale moves."
            )
        if info.name == HANDLES.name or hasattr(Sink, info.name):
            raise GraphError(
                f"{where}: {cls} declares a state {info.name!r}, which is a name that every sink "
                "has. Call it another name."
            )
    return (HANDLES, *states)


def refuse_states(source: Source, where: str) -> None:
    """A source has no states beside the offsets of its splits."""
    names = [info.name for info in declarations_of(source)]
    if names:
        raise GraphError(
            f"{where}: {type(source).__name__} declares state ({', '.join(names)}). What a reader "
            "remembers belongs to a split, and goes where that goes: put it into the offset that "
            'poll returns, as Polled(batch, {"at": 17, "seen": [...]}), and read() gets it back.'
        )
