"""Matching a pattern in a keyed stream: see :meth:`mainstay.KeyedStream.match`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.aggregates import HIDDEN_KEY_NAME
from mainstay.api.checks import asked_about, check_callable, check_filter, checked_schema, described
from mainstay.api.event_time import time_column
from mainstay.api.expressions import Column, refuse_pyspark
from mainstay.api.patterns import Pattern
from mainstay.api.settings import Settings
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.check import level_of_caller
from mainstay.plan.logical import Input
from mainstay.runtime.joins import rows_info
from mainstay.runtime.operators.patterns.automaton import automaton_of
from mainstay.runtime.operators.patterns.match import DUE, PARTIAL, WAITING
from mainstay.runtime.own_states import ENDED, FIRED, MADE_FOR
from mainstay.runtime.patterns import STRICT, Condition, Group, Member, PatternSpec, Skip, Step
from mainstay.runtime.side_names import LATE, TIMED_OUT
from mainstay.runtime.spec import Forward, SideSpec
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.info import StateInfo
from mainstay.state.kinds import TIMER, VALUE
from mainstay.state.timer_handles import EVENT_TIME, PROCESSING_TIME, TimerSpec
from mainstay.state.values import ValueType

if TYPE_CHECKING:
    from mainstay.api.keyed_stream import KeyedStream

ORDERS = ("event_time", "arrival")
MATCH_START, MATCH_TIME = "match_start", "match_time"
_MOMENT = pa.timestamp("us", "UTC")
MOST_EDGES = 60


@with_own_frames
class MatchedStream(Stream):
    """What was made of the matches of a pattern."""

    @property
    def timed_out(self) -> Stream:
        """The partial matches whose time was over: the columns of the key, ``match_start``,
        ``match_time``, which is when it was over, and one for each step, null where it has none."""
        return self.side(TIMED_OUT)


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """What ``match`` was called with."""

    pattern: Any
    function: Callable[[Any], Any] | None
    schema: Any
    skip: Any
    order: Any
    on: Any


def match(
    stream: KeyedStream,
    request: MatchRequest,
    settings: Settings,
    *,
    queryable: bool,
) -> MatchedStream:
    """Add the matching of a pattern to the graph."""
    where = stream._named("match", settings)
    pattern = _checked(stream, request, where)
    plain = _plain_schema(stream, pattern, where)
    schema = plain if request.function is None else checked_schema(request.schema, where)
    time = _time(stream, request, where)
    node = nodes.Match(stream.key, pattern, plain, request.function, time)
    states = asked_about(_states(stream, pattern, time is not None), where, queryable=queryable)
    sides = [SideSpec(LATE, stream.schema)] if time is not None else []
    if pattern.within_us is not None:
        sides.append(SideSpec(TIMED_OUT, plain))
    own = (MADE_FOR,) if time is None else (MADE_FOR, FIRED, ENDED)
    operator = stream._builder.add(
        "match",
        node,
        schema,
        settings,
        inputs=stream._inputs(),
        states=(*states, *own),
        key=stream.key,
        sides=tuple(sides),
    )
    return MatchedStream(stream._builder, schema, (Input(operator.id, Forward()),))


# ---------------------------------------------------------------- checks


def _checked(stream: KeyedStream, request: MatchRequest, where: str) -> PatternSpec:
    pattern = request.pattern
    if not isinstance(pattern, Pattern):
        raise GraphError(
            f"{where} needs a pattern, not {described(pattern)}. Write "
            'ms.pattern("small", ms.col("amount") < 1).then("big", ms.col("amount") > 500).'
        )
    skips = get_args(Skip)
    if request.skip not in skips:
        raise GraphError(
            f"{where}: skip={request.skip!r} is unknown; choose one of {one_of(skips)}."
            f"{did_you_mean(request.skip, skips)}"
        )
    if request.function is None and request.schema is not None:
        raise GraphError(
            f"{where} was given a schema, but no function that makes rows of it out of a match. "
            "Leave the schema out, or give a function before it."
        )
    if request.function is not None:
        check_callable(request.function, where, may_yield=True)
    members = _Binding(stream, pattern, where).all(pattern.members)
    spec = PatternSpec(members, pattern.within_us, request.skip)
    _check_steps(spec, where)
    return spec


class _Binding:
    """Conditions for the columns of a stream."""

    def __init__(self, stream: KeyedStream, pattern: Pattern, where: str) -> None:
        self._stream = stream
        self._pattern = pattern
        self._where = where

    def all(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        return tuple(
            replace(each, members=self.all(each.members))
            if isinstance(each, Group)
            else self._step(each)
            for each in members
        )

    def _step(self, step: Step) -> Step:
        condition = self._bound(step.condition, self._pattern.conditions[step.name], step.name)
        if step.until is None:
            return replace(step, condition=condition)
        until = self._bound(step.until, self._pattern.ends[step.name], step.name)
        return replace(step, condition=condition, until=until)

    def _bound(self, condition: Condition, when: Any, name: str) -> Condition:
        place = f"{self._where}, step {name!r}"
        refuse_pyspark(when, place)
        if isinstance(when, Column):
            when, _ = when.bound(self._stream.schema, place)
        if not isinstance(when, pc.Expression):
            return condition
        check_filter(when, self._stream.schema, place)
        return replace(condition, expression=when)


def _is_not(member: Member) -> bool:
    return isinstance(member, Step) and member.is_not


def _check_steps(spec: PatternSpec, where: str) -> None:
    last = spec.members[-1]
    if all(each.is_optional for each in spec.members if not _is_not(each)):
        raise GraphError(
            f"{where}: all steps of the pattern are optional, so that nothing would be a match. "
            "Leave optional() out of one of them."
        )
    if isinstance(last, Step) and last.is_not and last.contiguity == STRICT:
        raise GraphError(
            f"{where}: the pattern ends with not_then({last.name!r}), and no row says that the "
            f"next one did not come. Write not_followed_by({last.name!r}, ...) and within(...)."
        )
    automaton = automaton_of(spec.members)
    for place in automaton.places:
        is_greedy = any(edge.is_greedy for edge in place.edges)
        if is_greedy and (place.is_complete or place.waits_for_end):
            raise GraphError(
                f"{where}: the step {spec.steps[place.step].name!r} is greedy, and nothing must "
                "come behind it; as rows may still come, nobody knows when there are no more. Add "
                "the step that ends it, or leave greedy() out."
            )
    if automaton.waits_for_end and spec.within_us is None:
        raise GraphError(
            f"{where}: the pattern ends with what must not come, and nothing says until when. Add "
            'within("1min").'
        )
    if max(len(place.edges) for place in automaton.places) > MOST_EDGES:
        raise GraphError(
            f"{where}: more than {MOST_EDGES} optional steps follow each other. Divide the pattern."
        )
    if (
        spec.within_us is None
        and len(spec.steps) + sum(each.is_several for each in spec.members) > 1
    ):
        _warn_of_growth(where)


def _warn_of_growth(where: str) -> None:
    warnings.warn(
        f"{where}: the pattern has no within(...), so partial matches that never become whole stay "
        "in the state for ever. Say how long a match may take.",
        stacklevel=level_of_caller(),
    )


def _time(stream: KeyedStream, request: MatchRequest, where: str) -> tuple[int, int] | None:
    if request.order not in ORDERS:
        raise GraphError(
            f"{where}: order={request.order!r} is unknown; choose one of {one_of(ORDERS)}."
            f"{did_you_mean(request.order, ORDERS)}"
        )
    if request.order == "event_time":
        return time_column(stream._builder, stream._origins, stream.schema, request.on, where)
    if request.on is not None:
        raise GraphError(
            f'{where}: on={request.on!r} names a time, and order="arrival" goes by none. Leave one '
            "of them out."
        )
    return None


# ---------------------------------------------------------------- what it gives and keeps


def _plain_schema(stream: KeyedStream, pattern: PatternSpec, where: str) -> pa.Schema:
    """A match as a row: the key, its times, and the rows of each step."""
    keys = [stream._carried.field(number) for number in stream.key.columns]
    if stream.key.hidden:
        keys = [keys[0].with_name(HIDDEN_KEY_NAME)]
    row = pa.struct(list(stream.schema))
    fields = [*keys, pa.field(MATCH_START, _MOMENT), pa.field(MATCH_TIME, _MOMENT)]
    taken = {field.name for field in fields}
    for name, (_, is_several) in pattern.taken.items():
        if name in taken:
            raise GraphError(
                f"{where}: a match has a column {name!r} already, which is no step. Call the "
                "step another name."
            )
        fields.append(pa.field(name, pa.list_(row) if is_several else row))
    return pa.schema(fields)


def _states(stream: KeyedStream, pattern: PatternSpec, is_timed: bool) -> tuple[StateInfo, ...]:
    row = pa.struct(list(stream.schema))
    run = pa.struct(
        [
            ("rows", pa.list_(pa.int32())),
            ("places", pa.list_(pa.int32())),
            ("open", pa.int64()),
            ("is_fresh", pa.bool_()),
            ("state", pa.int32()),
        ]
    )
    partial = pa.struct(
        [("rows", pa.list_(row)), ("times", pa.list_(pa.int64())), ("runs", pa.list_(run))]
    )
    states = [StateInfo(PARTIAL, VALUE, ValueType.of(partial))]
    if pattern.within_us is not None:
        domain = EVENT_TIME if is_timed else PROCESSING_TIME
        kept = ValueType.of("timestamp")
        states.append(StateInfo(DUE, TIMER, kept, timer=TimerSpec(domain)))
    if is_timed:
        states.append(rows_info(WAITING, [(field.name, field.type) for field in stream.schema]))
    return tuple(states)
