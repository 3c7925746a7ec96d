"""PySpark's stateful functions on a grouped DataFrame, with the arguments that they have there."""

# ruff: noqa: N803 - the names of arguments are PySpark's

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mainstay.api.environment import Environment
from mainstay.api.keyed_stream import KeyedStream
from mainstay.api.options import Snapshots
from mainstay.api.stream import Stream
from mainstay.api.watermark import Watermark
from mainstay.errors import GraphError
from mainstay.own_frames import own_frames
from mainstay.spark.processors import time_modes
from mainstay.spark.queries.event_time import watermark_of
from mainstay.spark.queries.grouped import Grouped, grouped_of
from mainstay.spark.queries.query import StatefulQuery, environment_of

_EVENT_TIME_TIMEOUT = "eventtimetimeout"
ROWS, INITIAL = "rows", "initial"
"""What the uids of DataFrames end with."""


@own_frames
def transform_with_state(
    grouped: Any,
    statefulProcessor: Any,
    outputStructType: Any,
    outputMode: str,
    timeMode: str,
    initialState: Any = None,
    eventTimeColumnName: str = "",
    *,
    snapshots: Snapshots | str | os.PathLike[str] | None = None,
    sink: Any = None,
    parallelism: int | None = None,
    group: str | float | None = None,
    watermark: Watermark | None = None,
    uid: str = "processor",
    env: Environment | None = None,
    available_now: bool = False,
    allow_changed_query: bool = False,
) -> StatefulQuery:
    """``df.groupBy(...).transformWithState(...)`` as a job: the same arguments, in the same order.

    ``grouped`` is ``df.groupBy(...)`` of a streaming DataFrame, or of a batch one. The job's
    watermark is what the DataFrame's ``withWatermark`` says, unless ``watermark`` says another.
    ``initialState`` is grouped as well; its rows come once, before all others.

    ``snapshots`` is where a query has its checkpoint: a directory, or :class:`Snapshots`; a start
    goes on from there. ``env`` is for all other settings. ``sink`` is the first sink, ``group``
    that of :meth:`KeyedStream.transform_with_state`. The processor's uid is ``uid``, that of its
    DataFrame ``<uid>-rows``, of its initial state ``<uid>-initial``, of its sink ``<uid>-sink``.
    ``available_now`` is ``trigger(availableNow=True)``: the job reads what is there, and stops by
    itself; that and ``allow_changed_query`` are those of :meth:`Environment.from_dataframe`.
    """
    said = _Processing(
        statefulProcessor,
        outputStructType,
        outputMode,
        timeMode,
        initialState,
        eventTimeColumnName,
        group,
        watermark,
    )
    job = _JobSettings(snapshots, parallelism, env, allow_changed_query, available_now)
    query = _Query("transform_with_state", grouped, uid, job)
    return query.transformed(said, sink, in_pandas=False)


@own_frames
def transform_with_state_in_pandas(
    grouped: Any,
    statefulProcessor: Any,
    outputStructType: Any,
    outputMode: str,
    timeMode: str,
    initialState: Any = None,
    eventTimeColumnName: str = "",
    *,
    snapshots: Snapshots | str | os.PathLike[str] | None = None,
    sink: Any = None,
    parallelism: int | None = None,
    group: str | float | None = None,
    watermark: Watermark | None = None,
    uid: str = "processor",
    env: Environment | None = None,
    available_now: bool = False,
    allow_changed_query: bool = False,
) -> StatefulQuery:
    """``df.groupBy(...).transformWithStateInPandas(...)`` as a job: with pandas DataFrames.

    All else is as with :func:`transform_with_state`.
    """
    said = _Processing(
        statefulProcessor,
        outputStructType,
        outputMode,
        timeMode,
        initialState,
        eventTimeColumnName,
        group,
        watermark,
    )
    job = _JobSettings(snapshots, parallelism, env, allow_changed_query, available_now)
    query = _Query("transform_with_state_in_pandas", grouped, uid, job)
    return query.transformed(said, sink, in_pandas=True)


@own_frames
def apply_in_pandas_with_state(
    grouped: Any,
    func: Callable[[Any, Any, Any], Any],
    outputStructType: Any,
    stateStructType: Any,
    outputMode: str,
    timeoutConf: str,
    *,
    snapshots: Snapshots | str | os.PathLike[str] | None = None,
    sink: Any = None,
    parallelism: int | None = None,
    watermark: Watermark | None = None,
    uid: str = "processor",
    env: Environment | None = None,
    available_now: bool = False,
    allow_changed_query: bool = False,
) -> StatefulQuery:
    """``df.groupBy(...).applyInPandasWithState(...)`` as a job: the same arguments and order.

    What is ours is as with :func:`transform_with_state`.
    """
    job = _JobSettings(snapshots, parallelism, env, allow_changed_query, available_now)
    query = _Query("apply_in_pandas_with_state", grouped, uid, job)
    needed = str(timeoutConf).lower() == _EVENT_TIME_TIMEOUT
    found = watermark_of(query.grouped.df, watermark, query.where, needed=needed)
    stream = query.rows(found).apply_in_pandas_with_state(
        func,
        outputStructType,
        stateStructType,
        outputMode,
        timeoutConf,
        on=found.column if needed and found is not None else None,
        uid=uid,
    )
    return query.made(stream, sink)


@dataclass(frozen=True, slots=True)
class _Processing:
    """What is said of a processor, as PySpark says it; and what is ours."""

    processor: Any
    output: Any
    output_mode: str
    time_mode: str
    initial_state: Any
    event_time_column: str
    group: str | float | None
    watermark: Watermark | None


@dataclass(frozen=True, slots=True)
class _JobSettings:
    """What is said of the job."""

    snapshots: Snapshots | str | os.PathLike[str] | None
    parallelism: int | None
    env: Environment | None
    allow_changed_query: bool
    available_now: bool


class _Query:
    """A query that is being made."""

    def __init__(self, name: str, grouped: Any, uid: Any, settings: _JobSettings) -> None:
        if not isinstance(uid, str) or not uid.strip():
            raise GraphError(f"{name}(uid={uid!r}): the uid is a text that is not empty.")
        self.where = f"{name}(uid={uid!r})"
        self.grouped = grouped_of(grouped, self.where)
        self._uid = uid
        self._settings = settings
        self._env = environment_of(
            self.grouped.df, settings.env, settings.snapshots, settings.parallelism, self.where
        )

    def rows(self, watermark: Watermark | None) -> KeyedStream:
        """The rows of the DataFrame, keyed."""
        return self._keyed(self.grouped, ROWS, watermark)

    def transformed(self, given: _Processing, sink: Any, *, in_pandas: bool) -> StatefulQuery:
        mode = time_modes.checked_time_mode(given.time_mode, self.where)
        is_timed = mode == time_modes.EVENT
        needed = is_timed or bool(given.event_time_column)
        found = watermark_of(self.grouped.df, given.watermark, self.where, needed=needed)
        initial = None if given.initial_state is None else self._initial(given.initial_state)
        stream = self.rows(found).transform_with_state(
            given.processor,
            given.output,
            time_mode=mode,
            output_mode=given.output_mode,
            initial_state=initial,
            event_time_column=given.event_time_column or None,
            in_pandas=in_pandas,
            group=given.group,
            on=found.column if is_timed and found is not None else None,
            uid=self._uid,
        )
        return self.made(stream, sink)

    def made(self, stream: Stream, sink: Any) -> StatefulQuery:
        query = StatefulQuery(self._env, stream, self._uid)
        return query if sink is None else query.sink(sink)

    def _initial(self, given: Any) -> KeyedStream:
        where = f"{self.where}: initialState"
        grouped = grouped_of(given, where)
        if grouped.df.isStreaming:
            raise GraphError(
                f"{where} is of a streaming DataFrame, which has no end, so all other rows would "
                "wait for ever. Give it a batch one: spark.read, not spark.readStream."
            )
        return self._keyed(grouped, INITIAL, None)

    def _keyed(self, grouped: Grouped, what: str, watermark: Watermark | None) -> KeyedStream:
        uid = f"{self._uid}-{what}"
        stream = self._env.from_dataframe(
            grouped.df,
            uid=uid,
            watermark=watermark,
            in_order=True,
            available_now=self._settings.available_now and what == ROWS,
            allow_changed_query=self._settings.allow_changed_query,
        )
        return stream.key_by(*grouped.key)
