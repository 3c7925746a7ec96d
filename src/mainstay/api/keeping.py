"""Keeping some rows of each key: without duplicates, or those that come first in an order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.api.aggregates import HIDDEN_KEY_NAME
from mainstay.api.checks import asked_about
from mainstay.api.event_time import time_column
from mainstay.api.graph import GraphBuilder, column_number
from mainstay.api.ordering import ordered_by
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.operators.first import SEEN, SEEN_US
from mainstay.runtime.operators.newest import NEWEST
from mainstay.runtime.operators.top import TOP, WORST
from mainstay.runtime.own_states import FIRED
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import SideSpec
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean
from mainstay.state.info import StateInfo
from mainstay.state.kinds import VALUE, VALUE_COLUMN
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType

if TYPE_CHECKING:
    from mainstay.api.keyed_stream import KeyedStream
    from mainstay.api.stream import Stream

KEEPS = ("first", "last")
RANK = "rank"


def deduplicated(
    stream: KeyedStream,
    keep: Any,
    within: Any,
    by: Any,
    on: Any,
    settings: Settings,
    queryable: bool,
) -> Stream:
    where = stream._named("deduplicate", settings)
    if keep not in KEEPS:
        raise GraphError(
            f'{where}: keep={keep!r} must be "first" or "last".{did_you_mean(keep, KEEPS)}'
        )
    ordered = None if by is None else _ordered(stream.schema, by, where)
    _check_together(keep, within, by, on, where)
    within_us = 0 if within is None else _microseconds(within, where)
    time = None if within is None else _time(stream, on, where)
    node = nodes.Deduplicate(stream.key, keep, ordered, time, within_us)
    found = _remembered(node, stream.schema)
    if within is not None and time is None:
        found = tuple(replace(info, kind=VALUE, ttl=Ttl(within)) for info in found)
    states = asked_about(found, where, queryable=queryable)
    if time is None:
        return stream._keyed("deduplicate", node, stream.schema, states, settings)
    sides = (SideSpec(LATE, stream.schema),)
    return stream._keyed("deduplicate", node, stream.schema, (*states, FIRED), settings, sides)


def _check_together(keep: str, within: Any, by: Any, on: Any, where: str) -> None:
    if keep == "first" and by is not None:
        raise GraphError(
            f'{where}: by={by!r} says which row is the newest; keep="first" keeps the one that '
            'came first. Leave by out, or write keep="last".'
        )
    if keep == "last" and within is not None and by is None:
        raise GraphError(
            f'{where}: with keep="last" and no column by= every row is newer than those before '
            "it, and nothing is remembered. Leave within out, or name the column that says which "
            "row is the newest."
        )
    if on is not None and within is None:
        raise GraphError(
            f"{where}: on={on!r} says by which time keys are forgotten. Say with within= after "
            "how long, or leave on out."
        )


def _ordered(schema: pa.Schema, by: Any, where: str) -> int:
    """The place of a column whose values have an order."""
    number = column_number(schema, by, where)
    found = schema.field(number).type
    if pa.types.is_nested(found):
        raise GraphError(
            f"{where}: by={by!r} is of type {format_type(found)}, whose values have no order. "
            "Name a column of numbers, decimals, dates, timestamps, strings or booleans."
        )
    return number


def _microseconds(within: Any, where: str) -> int:
    found = round(seconds(within, f"{where}: within", positive=True) * 1_000_000)
    if found < 1:
        raise GraphError(f"{where}: within={within!r} must be at least a microsecond.")
    return found


def _time(stream: KeyedStream, on: Any, where: str) -> int | None:
    """The column of event time; None where no source tells it, so that the wall clock counts."""
    if on is None and not _is_told(stream._builder, stream._origins):
        return None
    return time_column(stream._builder, stream._origins, stream.schema, on, where)[0]


def _is_told(builder: GraphBuilder, origins: Iterable[Input]) -> bool:
    left, seen = [origin.upstream for origin in origins], set[int]()
    while left:
        operator = builder.operators[left.pop()]
        if isinstance(operator.node, nodes.Source) and operator.node.time is not None:
            return True
        if operator.id not in seen:
            seen.add(operator.id)
            left += [given.upstream for given in operator.inputs]
    return False


def _remembered(node: nodes.Deduplicate, schema: pa.Schema) -> tuple[StateInfo, ...]:
    """The keyed states of a deduplication."""
    states = []
    if node.keep == "first" and node.time is None:
        states.append(_column(SEEN, pa.bool_()))
    if node.by is not None:
        states.append(_column(NEWEST, schema.field(node.by).type))
    if node.time is None:
        return tuple(states)
    # What goes by event time is forgotten key by key.
    states.append(_column(SEEN_US, pa.int64()))
    return tuple(replace(info, kind=VALUE) for info in states)


def _column(name: str, arrow: pa.DataType) -> StateInfo:
    return StateInfo(name, VALUE_COLUMN, ValueType.of(arrow))


def top_of(
    stream: KeyedStream,
    n: Any,
    by: Any,
    ascending: Any,
    settings: Settings,
    queryable: bool,
) -> Stream:
    where = stream._named("top", settings)
    whole_number(n, "n", where=where)
    order = ordered_by(stream.schema, by, ascending, where)
    fields = list(stream.schema)
    if stream.key.hidden:
        key = stream._carried.field(stream.key.columns[0])
        fields = [key.with_name(HIDDEN_KEY_NAME), *fields]
    taken = [field.name for field in fields]
    for name in (RANK, HIDDEN_KEY_NAME) if stream.key.hidden else (RANK,):
        if taken.count(name) > (name == HIDDEN_KEY_NAME):
            raise GraphError(
                f"{where}: the stream has a column {name!r}, which is what it adds to the rows. "
                "Give yours another name with rename(...) before key_by(...)."
            )
    schema = pa.schema([*fields, pa.field(RANK, pa.int32())])
    row = pa.struct(list(stream.schema))
    by_fields = [stream.schema.field(each.column).with_nullable(True) for each in order]
    bound = by_fields[0].type if len(order) == 1 else pa.struct(by_fields)
    found = (_column(TOP, pa.list_(row)), _column(WORST, bound))
    states = asked_about(found, where, queryable=queryable)
    node = nodes.Top(stream.key, n, order)
    return stream._keyed("top", node, schema, states, settings)
