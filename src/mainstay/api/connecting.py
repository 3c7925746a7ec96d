"""What connected inputs share, be they two or more: their keys, and the operator they feed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.api.checks import checked_schema, checked_sides, checked_states
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.runtime.operators.connected import ConnectedInput
from mainstay.runtime.spec import Broadcast, HashByKey, KeySpec
from mainstay.state.info import StateInfo

if TYPE_CHECKING:
    from mainstay.api.stream import Stream

Keys = Mapping[str, KeySpec | None]
"""The key of each input, all in the names of one of them."""


def is_broadcast(stream: Stream) -> bool:
    """Whether every subtask gets every row of a stream."""
    return all(isinstance(each.partitioning, Broadcast) for each in stream._origins)


def key_types(key: KeySpec) -> list[pa.DataType]:
    """The types of a key's columns, whatever the columns are called."""
    arrow = key.type.arrow
    return [arrow] if len(key.columns) == 1 else [field.type for field in arrow]


def in_names_of(first: Stream, other: Stream) -> KeySpec:
    """The key of the other stream in the names of the first: what shares state looks the same."""
    assert first.key is not None
    assert other.key is not None
    if key_types(first.key) != key_types(other.key):
        raise GraphError(
            f"connect() of streams with different key types: {first._where()} is keyed by "
            f"{first.key.type.ddl}, {other._where()} by {other.key.type.ddl}. Key both by "
            "the same types."
        )
    return replace(other.key, type=first.key.type)


def not_keyed_alike(which: str, other: str) -> GraphError:
    """What is said of an input without a key beside one that has one."""
    return GraphError(
        f"connect(): {which} must be keyed like {other}, or broadcast: connect(rules.broadcast())."
    )


def added_operator(
    streams: Mapping[str, Stream],
    keys: Keys,
    function: Any,
    schema: Any,
    where: str,
    settings: Settings,
    *,
    queryable: bool,
    waiting: StateInfo | None = None,
) -> Stream:
    """The stream of an operator that calls a checked function for the rows of some inputs.

    ``waiting`` is the state of the rows that wait for the end of the second input.
    """
    out = checked_schema(schema, where)
    key = next((each for each in keys.values() if each is not None), None)
    states = checked_states(
        function,
        where,
        keyed_allowed=key is not None,
        queryable=queryable,
        broadcast=[name for name, stream in streams.items() if is_broadcast(stream)],
    )
    if waiting is not None:
        _check_no_timers(states, where)
        states = (*states, waiting)
    given = tuple(
        ConnectedInput(name, keys[name], stream._carried, is_broadcast(stream))
        for name, stream in streams.items()
    )
    first = next(iter(streams.values()))
    operator = first._builder.add(
        "connect",
        nodes.Connected(function, given, waiting is not None),
        out,
        settings,
        inputs=_inputs(streams, keys),
        states=states,
        key=key,
        sides=checked_sides(function, where),
    )
    return first._emitted_by(operator)


def _inputs(streams: Mapping[str, Stream], keys: Keys) -> tuple[Input, ...]:
    found: list[Input] = []
    for port, (name, stream) in enumerate(streams.items()):
        key = keys[name]
        for given in stream._inputs(port):
            how = given.partitioning if key is None else HashByKey(key)
            found.append(replace(given, partitioning=how))
    return tuple(found)


def _check_no_timers(states: tuple[StateInfo, ...], where: str) -> None:
    if any(info.timer is not None for info in states):
        raise GraphError(
            f"{where}: a function with timers cannot wait for the right input, because its "
            "timers would fire before the rows that wait. Leave wait_for_right out, or set the "
            "timers in a function behind this one."
        )
