"""Keyed streams: rows that go to the owner of their key, where the key's state is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mainstay.api.aggregates import HIDDEN_KEY_NAME, checked_aggregation, reduction_of
from mainstay.api.checks import (
    asked_about,
    check_callable,
    check_process,
    checked_schema,
    checked_sides,
    checked_states,
)
from mainstay.api.functions import KeyedBatchProcess, KeyedProcess
from mainstay.api.graph import GraphBuilder
from mainstay.api.keeping import deduplicated, top_of
from mainstay.api.reduce import RunningReduce, reduced_state
from mainstay.api.settings import Settings
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.runtime.connector import Source
from mainstay.runtime.spec import Forward, HashByKey, KeySpec, Partitioning, SideSpec
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.info import StateInfo
from mainstay.state.kinds import BY_COLUMN

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.intervals import Interval
    from mainstay.api.joins import JoinedStream, On
    from mainstay.api.matching import MatchedStream
    from mainstay.api.ordering import OrderedBy
    from mainstay.api.patterns import Pattern
    from mainstay.api.windows import Duration, Window
    from mainstay.runtime.joins import How
    from mainstay.runtime.operators.patterns.matched import Match
    from mainstay.runtime.patterns import Skip


def _by_column(info: StateInfo) -> StateInfo:
    """The same state for an operator that reads and writes the values of many keys at once."""
    return replace(info, kind=BY_COLUMN.get(info.kind.name, info.kind))


@with_own_frames
class KeyedStream(Stream):
    """A stream whose rows go to the owner of their key, where the key's state is.

    ``carried`` is the schema of what travels: with a key that a function computed it has one
    column more, which nothing but the key's owner sees.
    """

    key: KeySpec

    def __init__(
        self,
        builder: GraphBuilder,
        schema: pa.Schema,
        carried: pa.Schema,
        origins: tuple[Input, ...],
        key: KeySpec,
    ) -> None:
        hashed = tuple(replace(each, partitioning=HashByKey(key)) for each in origins)
        super().__init__(builder, schema, hashed)
        self._carried = carried
        self.key = key

    def process(  # type: ignore[override]
        self,
        function: KeyedProcess,
        schema: Any = None,
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`KeyedProcess` function: rows out, with the state of each row's key.

        With ``queryable=False`` the running job answers no question about its states.
        """
        where = self._named("process", settings)
        hint = "On a keyed stream, subclass KeyedProcess."
        check_process(function, KeyedProcess, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=True, queryable=queryable)
        sides = checked_sides(function, where)
        node = nodes.Keyed(function, self.key, function.is_compiled)
        if function.is_compiled:
            states = tuple(_by_column(info) for info in states)
        return self._keyed("process", node, out, states, settings, sides)

    def process_batches(
        self,
        function: KeyedBatchProcess,
        schema: Any = None,
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`KeyedBatchProcess` function of rows grouped by key."""
        where = self._named("process_batches", settings)
        hint = "For one row at a time call process(...)."
        check_process(function, KeyedBatchProcess, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=True, queryable=queryable)
        sides = checked_sides(function, where)
        node = nodes.KeyedBatches(function, self.key)
        return self._keyed("process_batches", node, out, states, settings, sides)

    def transform_with_state(
        self,
        processor: Any,
        output: Any = None,
        *,
        time_mode: str = "None",
        output_mode: str = "Append",
        initial_state: Stream | Source | None = None,
        event_time_column: str | None = None,
        in_pandas: bool = False,
        group: str | float | None = None,
        on: str | None = None,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """PySpark's own ``StatefulProcessor``, as it is: ``transform_with_state(Counts(), "...")``.

        ``output`` is the schema of what it yields: DDL or a ``StructType``. The rows of a key are
        handed over once for each key and slice of rows, as ``Row`` objects, or as pandas
        DataFrames with ``in_pandas``. ``init`` is run once when the graph is built, so its states
        are known as those of any other function are. No Spark session is needed.

        ``time_mode`` says which clock its timers go by: ``"ProcessingTime"`` or ``"EventTime"``.
        By event time, rows that are not newer than the watermark are dropped; ``on`` names the
        column with the time of an event, which is that of the source's ``Watermark`` unless it is
        said. ``event_time_column`` names the column of the output that has its time, for windows
        behind it. ``output_mode`` is "Append" or "Update"; rows are what the processor yields.

        ``initial_state`` is a stream that has an end, keyed alike or by the same columns, or a
        source. All its rows go to ``handleInitialState`` before any other row, once: a job that
        goes on from a snapshot has them already. With ``group="epoch"``, or a duration, rows are
        held until the next marker, or for that time, so that more rows of a key come together.
        """
        from mainstay.api import stateful_processing

        given = stateful_processing.ProcessorRequest(
            processor,
            output,
            time_mode,
            output_mode,
            event_time_column,
            in_pandas,
            on,
            initial_state,
            group,
        )
        return stateful_processing.transform_with_state(self, given, settings, queryable=queryable)

    def apply_in_pandas_with_state(
        self,
        function: Callable[[Any, Any, Any], Any],
        output: Any = None,
        state: Any = None,
        output_mode: str = "Append",
        timeout: str = "NoTimeout",
        *,
        on: str | None = None,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A function written for PySpark's ``applyInPandasWithState``, as it is.

        ``function(key, frames, state)`` yields DataFrames of the schema ``output``; ``state`` is
        the schema of its one value, which Spark's ``GroupState`` holds. It is called once for each
        key and slice of rows, and when the key has timed out: by the wall clock or by event time,
        as ``timeout`` says. By event time, ``on`` names the column with the time of an event.
        """
        from mainstay.api import stateful_processing

        given = stateful_processing.GroupStateRequest(
            function, output, state, output_mode, timeout, on
        )
        return stateful_processing.apply_in_pandas_with_state(
            self, given, settings, queryable=queryable
        )

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A running reduce: for each row, the fold of its key's rows so far.

        ``function(reduced, row)`` returns a row with the columns of the stream; the first row of
        a key is its own fold.

        ``operator.add``, ``min`` and ``max`` are known, and applied to each column outside the
        key by itself, as :meth:`aggregate` would: they emit a row per key and batch.
        """
        where = self._named("reduce", settings)
        known = reduction_of(function, self.schema, self.key, where)
        if known is not None:
            names = tuple(self.schema.names)
            return self._aggregated("reduce", known, names, settings, queryable)
        check_callable(function, where, rows=2)
        states = asked_about((reduced_state(self.schema),), where, queryable=queryable)
        node = nodes.Keyed(RunningReduce(function), self.key)
        return self._keyed("reduce", node, self.schema, states, settings)

    def aggregate(
        self,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        chain: bool | None = None,
        queryable: bool = True,
        **aggregates: Aggregate,
    ) -> Stream:
        """Running aggregates of each key: ``aggregate(total=ms.sum("amount"), n=ms.count())``.

        Emits the columns of the key (``key`` where a function made it) and one for each aggregate:
        a row for each key and batch with rows of that key. How rows are divided into batches is
        not defined; the last row of a key has the aggregates of all its rows. Rows are combined
        before they are sent to the owner of their key, so ``first``, ``last`` and ``collect``
        keep the order of the rows that one subtask sends; between subtasks there is none.
        """
        settings = Settings(
            uid=uid, parallelism=parallelism, max_parallelism=max_parallelism, chain=chain
        )
        where = self._named("aggregate", settings)
        self._builder.check_settings(settings, where)
        key_names = (HIDDEN_KEY_NAME,) if self.key.hidden else self.key.names
        checked_aggregation(aggregates, self.schema, key_names, where)
        return self._aggregated(
            "aggregate", aggregates, (*key_names, *aggregates), settings, queryable
        )

    def deduplicate(
        self,
        keep: str = "first",
        within: Duration | None = None,
        by: str | None = None,
        *,
        on: str | None = None,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """One row of each key: ``deduplicate()``, ``deduplicate("last", by="at")``.

        ``keep="first"`` emits a row at once when its key is new, and no other row of that key.
        ``keep="last"`` emits a row whenever none that came before is newer, as an update of the
        one before: by the column ``by``, equal ones in the order they come, or without ``by`` all
        in that order. Of the rows that come together only the newest of a key is emitted.

        A key is remembered for ever, or as long as ``within`` says: by event time where a source
        tells it, or where ``on`` names the column, and by the wall clock elsewhere. By event time,
        ``keep="first"`` takes a row as new that is ``within`` newer than the last one that was
        emitted. Rows behind the watermark are in ``side("late")``, because their key may be
        forgotten.
        """
        return deduplicated(self, keep, within, by, on, settings, queryable)

    def top(
        self,
        n: int,
        by: OrderedBy,
        *,
        ascending: bool = False,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> Stream:
        """The ``n`` rows of each key with the greatest values of a column, as they change.

        ``by=["price", ms.col("at").asc()]`` orders by several: of equal prices, the least ``at``
        is first. A name by itself is greatest first, or least first where ``ascending``.

        When rows of a key come among its first ``n``, all of these are emitted, each with a column
        ``rank`` more, from one on (and ``key`` in front where a function made the key). A row
        replaces the one that was emitted before with the same key and rank. Of equal values the
        one that came first is before the others. Rows in which ``by``, or the first of several,
        is null are left out; null in another column is behind everything.
        """
        return top_of(self, n, by, ascending, settings, queryable)

    def _aggregated(
        self,
        name: str,
        aggregates: dict[str, Aggregate],
        emitted: tuple[str, ...],
        settings: Settings,
        queryable: bool,
    ) -> Stream:
        """Emits the columns that are named, out of those of the key and the aggregates."""
        aggregation = aggregation_of(aggregates, self.schema)
        fields = [self._carried.field(number) for number in self.key.columns]
        if self.key.hidden:
            fields = [fields[0].with_name(HIDDEN_KEY_NAME)]
        fields += [pa.field(output.name, output.type) for output in aggregation.outputs]
        # From behind: with a key that a function made, a column may be called "key" as well.
        places = {field.name: number for number, field in enumerate(fields)}
        order = tuple(places[column] for column in emitted)
        schema = pa.schema([fields[number] for number in order])
        where = self._named(name, settings)
        self._builder.check_settings(settings, where)
        node = nodes.Aggregate(aggregation, self.key, self._carried, order)
        states = asked_about((aggregation.state(),), where, queryable=queryable)
        return self._keyed(name, node, schema, states, settings)

    def join(
        self,
        other: KeyedStream,
        *,
        how: How = "inner",
        within: Interval | None = None,
        window: Window | None = None,
        as_of: Literal["left"] | None = None,
        max_age: Duration | None = None,
        keep: Literal["forever"] | None = None,
        ttl: Duration | None = None,
        on: On = None,
        suffix: str | None = None,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> JoinedStream:
        """Join rows of this stream with those of another that have the same key.

        ``within=ms.interval("-10s", "0s")`` joins rows whose times are near each other: that of the
        right one less that of the left lies in the interval. ``window=ms.tumbling("10s")`` joins
        rows of one window when it is complete, with columns ``window_start`` and ``window_end``.
        ``as_of="left"`` joins each left row with the newest right one that is not newer, nor older
        by more than ``max_age``. Without any of these all rows of a key are joined, and
        ``keep="forever"`` or ``ttl="1 day"`` must say how long they are kept.

        ``how`` is ``inner``, ``left``, ``right``, ``full``, ``semi`` (left rows that match) or
        ``anti`` (left rows that match nothing); as-of joins are inner or left, joins by the key
        alone inner or semi. ``on`` names the column with the time of an event, or one for each
        side; it is that of the source's ``Watermark`` unless it is said.

        Emits the columns of the left side, then those of the right one without its key. A name
        that both have is refused, unless a ``suffix`` for those of the right side is given. A
        null in a key matches nothing. Rows that came too late to match are in ``late_left`` and
        ``late_right`` of the result.
        """
        from mainstay.api import joins

        request = joins.JoinRequest(how, within, window, as_of, max_age, keep, ttl, on, suffix)
        return joins.join(self, other, request, settings, queryable=queryable)

    def match(
        self,
        pattern: Pattern,
        function: Callable[[Match], Any] | None = None,
        schema: Any = None,
        *,
        skip: Skip = "past_last",
        order: Literal["event_time", "arrival"] = "event_time",
        on: str | None = None,
        queryable: bool = True,
        **settings: Unpack[Settings],
    ) -> MatchedStream:
        """Rows of a key that follow each other as a :func:`pattern` says.

        ``function(match)`` makes rows of a schema out of a :class:`Match`, as that of ``flat_map``
        does. Without one a match is a row with the columns of the key, ``match_start``,
        ``match_time``, and one for each step: a struct, or a list of them.

        ``skip`` says which matches count of those that share rows. With ``"past_last"`` the next
        match begins behind the last row of the one before, with ``"to_next"`` behind its first;
        with ``"none"`` all count.

        Rows are matched in the order of their event time when the watermark has passed them, those
        of one time in the order in which they came; with ``order="arrival"`` in that order and at
        once, and ``within`` goes by the wall clock. ``on`` names the column with the time, where it
        is not that of the source's ``Watermark``.

        Partial matches whose time was over are in ``timed_out`` of the result, and rows that came
        behind the watermark in ``late``.
        """
        from mainstay.api import matching

        request = matching.MatchRequest(pattern, function, schema, skip, order, on)
        return matching.match(self, request, settings, queryable=queryable)

    def _keyed(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema,
        states: tuple[StateInfo, ...],
        settings: Settings,
        sides: tuple[SideSpec, ...] = (),
        also: tuple[Input, ...] = (),
    ) -> Stream:
        """An operator of this stream, which reads other inputs ``also``."""
        added = self._builder.add(
            name,
            node,
            schema,
            settings,
            inputs=self._inputs() + also,
            states=states,
            key=self.key,
            sides=sides,
        )
        return self._emitted_by(added)

    def _read_by(self, settings: Settings) -> tuple[Input, ...]:
        """Rows go to the owner of their key also where nobody asks for it, but without it."""
        if not self.key.hidden:
            return self._inputs()
        dropped = self._builder.add(
            "drop_key",
            nodes.MapBatches(_without_last_column),
            self.schema,
            {
                "parallelism": settings.get("parallelism"),
                "max_parallelism": settings.get("max_parallelism"),
            },
            inputs=self._inputs(),
        )
        return (Input(dropped.id, Forward()),)

    def key_by(
        self,
        *columns: Any,
        uid: str | None = None,
        migrate_key: Callable[[Any], Any] | None = None,
    ) -> KeyedStream:
        raise GraphError(f"{self._where()}: key_by() twice in a row; the second one is enough.")

    def union(self, *others: Stream) -> Stream:
        raise GraphError(
            f"union() of the keyed stream of {self._where()}: call key_by(...) after union()."
        )

    def _routed(self, partitioning: Partitioning) -> Stream:
        raise GraphError(
            f"{self._where()}: rebalance(), broadcast() or partition_by(...) after key_by(...) "
            "would undo it. Leave one of them out."
        )


def _without_last_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(range(batch.num_columns - 1))
