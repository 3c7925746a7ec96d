"""PySpark's own stateful functions on keyed streams. PySpark is imported where they are used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.api.checks import asked_about, check_arguments, checked_schema
from mainstay.api.connect import endless_source
from mainstay.api.connecting import key_types
from mainstay.api.event_time import time_column
from mainstay.api.graph import column_number
from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.quantities import seconds
from mainstay.runtime.connector import Source
from mainstay.runtime.operators.gathered_rows import UNTIL_MARKER
from mainstay.runtime.operators.group_function import GroupTimes
from mainstay.runtime.own_states import HELD_BY_KEY, SPLITS
from mainstay.runtime.spec import Forward, HashByKey, KeySpec
from mainstay.state.timer_handles import EVENT_TIME

if TYPE_CHECKING:
    from mainstay.api.keyed_stream import KeyedStream
    from mainstay.api.stream import Stream


@dataclass(frozen=True, slots=True)
class ProcessorRequest:
    """What the author of a job has said about a processor."""

    processor: Any
    output: Any
    time_mode: str
    output_mode: str
    event_time_column: str | None
    in_pandas: bool
    on: str | None
    initial_state: Any = None
    group: Any = None


@dataclass(frozen=True, slots=True)
class GroupStateRequest:
    """The same about a function with a ``GroupState``."""

    function: Any
    output: Any
    state: Any
    output_mode: str
    timeout: str
    on: str | None


def transform_with_state(
    stream: KeyedStream,
    given: ProcessorRequest,
    settings: Settings,
    *,
    queryable: bool,
) -> Stream:
    """An operator that calls a processor."""
    name = "transform_with_state"
    where = stream._named(name, settings)
    _check_pyspark(where)
    from mainstay.spark.processors.building import processor_function

    output = checked_schema(given.output, where)
    made = processor_function(
        given.processor,
        output,
        time_mode=given.time_mode,
        output_mode=given.output_mode,
        in_pandas=given.in_pandas,
        where=where,
    )
    if given.event_time_column is not None:
        time_column(stream._builder, (), output, given.event_time_column, where)
    initial = _initial(stream, given.initial_state, settings.get("uid"), where)
    node = nodes.KeyedGroups(
        made.function,
        stream.key,
        replace(_times(stream, made.domain, given.on, where), hold_s=_hold_s(given.group, where)),
        made.given_up,
        given.event_time_column,
        None if initial is None else (initial.key, initial.schema),
    )
    states = asked_about(made.states, where, queryable=queryable)
    if initial is None:
        return stream._keyed(name, node, output, states, settings)
    states = (*states, HELD_BY_KEY)
    return stream._keyed(name, node, output, states, settings, also=initial.inputs)


@dataclass(frozen=True, slots=True)
class _Initial:
    """The input of an initial state: its key in the names of the stream's, and its schema."""

    key: KeySpec
    schema: pa.Schema
    inputs: tuple[Input, ...]


def _initial(stream: KeyedStream, given: Any, uid: str | None, where: str) -> _Initial | None:
    """Rows that come before all others: a stream, keyed alike, or a source of their own."""
    from mainstay.api.keyed_stream import KeyedStream as Keyed
    from mainstay.api.stream import Stream

    if given is None:
        return None
    if isinstance(given, Source):
        given = _sourced(stream, given, uid)
    if not isinstance(given, Stream):
        raise GraphError(
            f"{where}: initial_state={given!r} is no stream. Give it one that has an end, as "
            "env.source(...).key_by(...), or a source such as ms.connectors.Rows(schema, rows)."
        )
    if given._builder is not stream._builder:
        raise GraphError(f"{where}: initial_state is a stream of another environment.")
    if not isinstance(given, Keyed):
        given = _keyed_alike(stream, given, where)
    if key_types(given.key) != key_types(stream.key):
        raise GraphError(
            f"{where}: its rows are keyed by {stream.key.type.ddl}, those of initial_state by "
            f"{given.key.type.ddl}. Key both by the same types."
        )
    endless = endless_source(given)
    if endless is not None:
        raise GraphError(
            f"{where}: the source {endless!r} of initial_state has no end, so all other rows would "
            "wait for ever. Give it one."
        )
    key = replace(given.key, type=stream.key.type)
    inputs = tuple(replace(each, partitioning=HashByKey(key)) for each in given._inputs(1))
    return _Initial(key, given._carried, inputs)


def _sourced(stream: KeyedStream, source: Source, uid: str | None) -> Stream:
    from mainstay.api.stream import Stream

    builder = stream._builder
    added = builder.add(
        "source",
        nodes.Source(builder.own(source)),
        source.schema,
        {"uid": None if uid is None else f"{uid}-initial"},
        states=(SPLITS,),
    )
    return Stream(builder, source.schema, (Input(added.id, Forward()),))


def _keyed_alike(stream: KeyedStream, given: Stream, where: str) -> Any:
    if stream.key.hidden:
        raise GraphError(
            f"{where}: a function made its key, so initial_state needs key_by(...) with one, too."
        )
    try:
        return given.key_by(*stream.key.names)
    except GraphError as error:
        raise GraphError(
            f"{where}: initial_state has not the columns of the key: {error}"
        ) from None


def apply_in_pandas_with_state(
    stream: KeyedStream,
    given: GroupStateRequest,
    settings: Settings,
    *,
    queryable: bool,
) -> Stream:
    """An operator that calls a function with a ``GroupState``."""
    name = "apply_in_pandas_with_state"
    where = stream._named(name, settings)
    _check_pyspark(where)
    from mainstay.spark.processors.building import group_state_function

    check_arguments(given.function, 3, where, "a function of a key, DataFrames and a GroupState")
    output = checked_schema(given.output, where)
    made = group_state_function(
        given.function,
        output,
        checked_schema(given.state, f"{where}, its state"),
        timeout=given.timeout,
        output_mode=given.output_mode,
        where=where,
    )
    times = replace(_times(stream, made.domain, given.on, where), is_strict=True)
    node = nodes.KeyedGroups(made.function, stream.key, times)
    states = asked_about(made.states, where, queryable=queryable)
    return stream._keyed(name, node, output, states, settings)


def _hold_s(group: Any, where: str) -> float | None:
    """How long rows are held, so that more of them are handed over together."""
    if group is None:
        return None
    if group == "epoch":
        return UNTIL_MARKER
    try:
        return seconds(group, "group", positive=True)
    except GraphError as error:
        raise GraphError(f'{where}: {error} Or say group="epoch".') from None


def _times(stream: KeyedStream, domain: str | None, on: str | None, where: str) -> GroupTimes:
    if domain == EVENT_TIME:
        found = time_column(stream._builder, stream._origins, stream.schema, on, where)
        return GroupTimes(domain, found[0])
    if on is not None:
        column_number(stream.schema, on, where)
        raise GraphError(
            f"{where}: on={on!r} is for processors that go by event time. Say "
            'time_mode="EventTime", or leave it out.'
        )
    return GroupTimes(domain)


def _check_pyspark(where: str) -> None:
    try:
        from mainstay.spark.oldest_pyspark import require_pyspark

        require_pyspark()
        import mainstay.spark.processors.row_classes  # noqa: F401
    except ImportError as error:
        raise GraphError(
            f"{where} runs PySpark's own functions, and PySpark 4.1 or newer is not installed "
            f"({error}). Install it: pip install 'mainstay[spark]'."
        ) from error
