"""Streams: rows of one schema that flow from operator to operator.

A stream is a description; every method returns a new one and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.calling import called_async
from mainstay.api.checks import (
    check_callable,
    check_filter,
    check_process,
    checked_schema,
    checked_sides,
    checked_states,
    described,
)
from mainstay.api.column_methods import ColumnMethods
from mainstay.api.connect import ConnectedStreams
from mainstay.api.connector_states import sink_states
from mainstay.api.data_sources import as_sink
from mainstay.api.expressions import Column, refuse_pyspark
from mainstay.api.functions import Process
from mainstay.api.graph import GraphBuilder, named
from mainstay.api.instead import Instead
from mainstay.api.iterate import iterate
from mainstay.api.keys import chosen_key
from mainstay.api.partitions import chosen_by
from mainstay.api.settings import Settings
from mainstay.api.windows import Duration, Window, checked_window
from mainstay.errors import GraphError, MainstayError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.connector import Sink
from mainstay.runtime.side_names import LATE
from mainstay.runtime.spec import Broadcast, Chosen, Forward, KeySpec, Partitioning, Rebalance
from mainstay.schema import format_schema
from mainstay.spelling import did_you_mean, one_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.keyed_stream import KeyedStream
    from mainstay.api.windowed_stream import Emits, WindowedStream


@with_own_frames
class Stream(ColumnMethods, Instead):
    """Rows of one schema. ``origins`` are the outputs they come from, with how they come."""

    key: KeySpec | None = None

    @classmethod
    def _instead_of(cls, name: str) -> str | None:
        from mainstay.api.keyed_stream import KeyedStream

        goes_by_key = not name.startswith("_") and hasattr(KeyedStream, name)
        return "It goes by key: call key_by(...) first." if goes_by_key else None

    def __init__(
        self,
        builder: GraphBuilder,
        schema: pa.Schema,
        origins: tuple[Input, ...],
    ) -> None:
        self._builder = builder
        self._origins = origins
        self._carried = schema
        self.schema = schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({format_schema(self.schema)!r})"

    # ------------------------------------------------------------ functions

    def map(
        self,
        function: Callable[[Any], Any],
        schema: Any = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """One row out for each row in."""
        where = self._named("map", settings)
        check_callable(function, where)
        out = checked_schema(schema, where)
        return self._then("map", nodes.Map(function), out, settings)

    def map_async(
        self,
        function: Callable[[Any], Any],
        schema: Any = None,
        *,
        capacity: int = 100,
        timeout: str | float | None = "10s",
        ordered: bool = True,
        retries: int = 0,
        on_timeout: Callable[[Any], Any] | None = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """One row out for each row in, of a function that waits for something outside: an
        ``async def``, or an ordinary function that blocks, which is called in threads.

        Each subtask has ``capacity`` rows in flight at a time, and takes no more meanwhile. Results
        come in the order of the rows, or with ``ordered=False`` as they are there, but never
        before or after a watermark that their rows were behind or before. Rows in flight are part
        of snapshots; a restored job calls the function for them again.

        A call that raises is made again up to ``retries`` times, with growing pauses. When a row
        has no answer after ``timeout``, all tries together, the job fails, or goes on with the row
        that ``on_timeout(row)`` returns.
        """
        where = self._named("map_async", settings)
        node, state = called_async(
            function, self.schema, capacity, timeout, ordered, retries, on_timeout, where
        )
        out = checked_schema(schema, where)
        return self._then("map_async", node, out, settings, states=(state,))

    def flat_map(
        self,
        function: Callable[[Any], Any],
        schema: Any = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """Any number of rows out for each row in: yield them, or return a list."""
        where = self._named("flat_map", settings)
        check_callable(function, where, may_yield=True)
        out = checked_schema(schema, where)
        return self._then("flat_map", nodes.FlatMap(function), out, settings)

    def filter(
        self,
        condition: Callable[[Any], Any] | Column | pc.Expression,
        **settings: Unpack[Settings],
    ) -> Stream:
        """Only the rows for which a function of the row is true.

        An expression of the columns, as in ``filter(ms.col("amount") > 5)``, is evaluated on whole
        batches and many times as fast; rows for which it is null are left out. Expressions of
        Arrow (``pc.field("amount") > 5``) are taken as well.
        """
        where = self._named("filter", settings)
        refuse_pyspark(condition, where)
        if isinstance(condition, Column):
            condition, _ = condition.bound(self.schema, where)
        if isinstance(condition, pc.Expression):
            check_filter(condition, self.schema, where)
            node: nodes.Node = nodes.FilterExpression(condition)
        else:
            if isinstance(condition, str):
                raise GraphError(
                    f"{where}: a text such as {condition!r} is no condition. Write "
                    'ms.col("amount") > 5, or lambda row: row.amount > 5.'
                )
            check_callable(condition, where)
            node = nodes.Filter(condition)
        return self._then("filter", node, self.schema, settings)

    def filter_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        **settings: Unpack[Settings],
    ) -> Stream:
        """Only the rows for which a function of the whole ``pyarrow.RecordBatch`` is true.

        It returns a boolean for each row, as an array of pyarrow or numpy; null leaves a row out.
        """
        check_callable(function, self._named("filter_batches", settings))
        node = nodes.FilterBatches(function)
        return self._then("filter_batches", node, self.schema, settings)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: Any = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A function of whole ``pyarrow.RecordBatch``es, in and out."""
        where = self._named("map_batches", settings)
        check_callable(function, where)
        out = checked_schema(schema, where)
        return self._then("map_batches", nodes.MapBatches(function), out, settings)

    def process(
        self,
        function: Process,
        schema: Any = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A :class:`Process` function: rows out, with operator state."""
        where = self._named("process", settings)
        hint = "For a KeyedProcess call key_by(...) first."
        check_process(function, Process, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=False)
        sides = checked_sides(function, where)
        node = nodes.Process(function)
        return self._then("process", node, out, settings, states=states, sides=sides)

    # ------------------------------------------------------------ routing

    def side(self, name: str) -> Stream:
        """The rows that the operator of this stream emits into one of its side outputs.

        What no stream reads is counted and dropped.
        """
        origin = self._origins[0]
        operator = self._builder.operators[origin.upstream]
        if len(self._origins) > 1 or origin.side or self.key is not None:
            raise GraphError(
                f"side({name!r}) of {self._where()}: side outputs are those of one operator. Call "
                "side(...) on the stream that the operator gave, before union(...) or key_by(...)."
            )
        names = [each.name for each in operator.sides]
        if name not in names:
            have = f"has {one_of(names)}" if names else "has none"
            raise GraphError(
                f"{self._where()} has no side output {name!r}; it {have}."
                f"{did_you_mean(name, names)}"
            )
        read = Input(operator.id, Forward(), side=name)
        return Stream(self._builder, operator.emits(name), (read,))

    def union(self, *others: Stream) -> Stream:
        """The rows of several streams of the same schema, in no particular order."""
        origins = self._origins
        for other in others:
            self._check_beside(other, "union")
            if other.key is not None:
                raise GraphError(
                    f"union() of {self._where()} with the keyed stream of {other._where()}: call "
                    "key_by(...) after union()."
                )
            if other.schema != self.schema:
                raise GraphError(
                    f"union() of streams with different schemas: {self._where()} has "
                    f"{format_schema(self.schema)!r}, {other._where()} has "
                    f"{format_schema(other.schema)!r}. Make them equal with map(...)."
                )
            origins += other._origins
        return Stream(self._builder, self.schema, origins)

    def _check_beside(self, other: Any, method: str) -> None:
        if not isinstance(other, Stream):
            raise GraphError(
                f"{method}() after {self._where()} needs a stream, not {type(other).__name__}."
            )
        if other._builder is not self._builder:
            raise GraphError(
                f"{method}() of {self._where()} and {other._where()}, which belong to two "
                "environments. Build both streams in one."
            )

    def rebalance(self) -> Stream:
        """Deal the rows out evenly to the subtasks of what comes next."""
        return self._routed(Rebalance())

    def broadcast(self) -> Stream:
        """Give every row to every subtask of what comes next."""
        return self._routed(Broadcast())

    def partition_by(self, by: str | Column | Callable[[Any], int]) -> Stream:
        """Give each row to the subtask of what comes next that a whole number says, modulo their
        number: ``partition_by("shard")``, ``partition_by(ms.col("id") % 10)``, ``partition_by(f)``.

        A function gets the row. It must give the same number for the same row whenever it is
        asked: a restored job asks again. Rows of one number keep their order. There is no keyed
        state: for that, call ``key_by``.
        """
        chooser = chosen_by(self.schema, by, self._named("partition_by"))
        return self._routed(Chosen(chooser))

    def unchained(self) -> Stream:
        """Have what comes next run as a task of its own, instead of in one call with what is
        before it. Use it to see apart in the metrics what two functions cost."""
        return self._routed(Forward(is_chained=False))

    def _routed(self, partitioning: Partitioning) -> Stream:
        self._check_not_chosen("routing them otherwise")
        origins = tuple(replace(each, partitioning=partitioning) for each in self._origins)
        return Stream(self._builder, self.schema, origins)

    def _check_not_chosen(self, what: str) -> None:
        if any(isinstance(each.partitioning, Chosen) for each in self._origins):
            raise GraphError(
                f"the rows of {self._where()} go by partition_by(...), and {what} would undo it. "
                "Leave one of them out."
            )

    def key_by(
        self,
        *columns: Any,
        uid: str | None = None,
        migrate_key: Callable[[Any], Any] | None = None,
    ) -> KeyedStream:
        """Group by columns, by one expression of them, or by a function of the row:
        ``key_by("customer")``, ``key_by(ms.col("id") % 100)``, ``key_by(fn, "type")``.

        ``migrate_key`` turns a key that a snapshot holds in another type into one of this type.
        """
        where = self._named("key_by", {"uid": uid})
        if migrate_key is not None:
            check_callable(migrate_key, f"{where}, migrate_key")
        if any(isinstance(each.partitioning, Broadcast) for each in self._origins):
            raise GraphError(f"{where}: a broadcast stream goes to every subtask and has no key.")
        self._check_not_chosen("key_by(...)")
        if not columns:
            raise GraphError(f"{where} needs at least one column, or a function and a type.")
        key = chosen_key(self.schema, columns, where, migrate=migrate_key)
        if key.node is None:
            if uid is not None:
                raise GraphError(
                    f"{where}: columns as a key need no operator. Leave uid out, or give it to the "
                    "operator that comes next."
                )
            return self._keyed_by(key.spec, self.schema, self._origins)
        # It stays in the chain of what it reads, whose parallelism need not be the job's.
        before = [self._builder.operators[each.upstream] for each in self._origins]
        beside = before[0].id if len({each.parallelism for each in before}) == 1 else None
        added = self._then("key_by", key.node, key.carried, {"uid": uid}, beside=beside)
        return self._keyed_by(key.spec, key.carried, added._origins)

    def _keyed_by(
        self, key: KeySpec, carried: pa.Schema, origins: tuple[Input, ...]
    ) -> KeyedStream:
        from mainstay.api.keyed_stream import KeyedStream

        return KeyedStream(self._builder, self.schema, carried, origins, key)

    def window(
        self,
        window: Window,
        *,
        on: str | None = None,
        lateness: Duration = "0s",
        emit: Emits = "final",
        every: Duration | None = None,
    ) -> WindowedStream:
        """Divide the rows into windows: ``window(ms.tumbling("1min")).aggregate(n=ms.count())``.

        ``on`` is the column with the time of an event: that of the source's ``Watermark`` unless
        it is said. A window is complete when the watermark has come to its end, and takes rows for
        as long as ``lateness`` after that; those that no window takes any more are in ``late``.

        ``emit="final"`` gives one row for each window, when it takes no more rows. ``"update"``
        gives one at its end and again when late rows have changed it, and ``"early"`` also before,
        ``every`` so often by the wall clock; these two have a column ``is_final`` more.
        """
        from mainstay.api.windowed_stream import WindowedStream

        found = checked_window(window, self._named("window"))
        return WindowedStream(self, found, on=on, lateness=lateness, emit=emit, every=every)

    @property
    def late(self) -> Stream:
        """The rows that came too late for every window they belong to, or have no time."""
        return self.side(LATE)

    def connect(self, other: Stream, *, wait_for_right: bool = False) -> ConnectedStreams:
        """Two inputs for one function: both keyed, neither keyed, or the right one broadcast.
        ``env.connect(orders=..., refunds=...)`` has more than two.

        With ``wait_for_right=True`` the function sees no left row before the right stream, which
        must be bounded, has ended. Left rows that come before are kept in state, and stored with
        each epoch, so the right stream should be read soon.
        """
        self._check_beside(other, "connect")
        return ConnectedStreams(self, other, wait_for_right=wait_for_right)

    def iterate(
        self,
        body: Callable[[Stream], tuple[Stream, Stream]],
        *,
        round_column: str | None = None,
        max_rounds: int | None = None,
        memory: int | None = None,
        **settings: Unpack[Settings],
    ) -> Stream:
        """A loop. ``body`` gets the rows that enter it and those that come back, as one stream, and
        returns two: what goes back, of the same schema, and what goes on.

        Rows inside the loop are part of snapshots. A bounded job ends when no row is left in any
        loop. ``round_column`` is counted up by one whenever a row goes back; with ``max_rounds``
        rows that have been around as often do not. ``memory`` bytes of rows wait for their turn
        in each worker; further ones wait in the job's storage.
        """
        return iterate(
            self,
            body,
            settings,
            round_column=round_column,
            max_rounds=max_rounds,
            memory=memory,
        )

    # ------------------------------------------------------------ ends

    def sink(self, sink: Sink | Any, **settings: Unpack[Settings]) -> None:
        """The end of a stream: a sink, or a PySpark ``DataSource`` with a ``streamWriter``."""
        sink = as_sink(sink, self.schema, self._named("sink", settings))
        if not isinstance(sink, Sink):
            raise GraphError(
                f"{self._named('sink', settings)} needs a sink, not {described(sink)}. Give it an "
                "instance of one of mainstay.connectors, or of your own subclass of "
                "mainstay.connectors.Sink."
            )
        try:
            sink.check_schema(self.schema)
        except MainstayError as error:
            raise GraphError(f"{self._named('sink', settings)}: {error}") from error
        sink = self._builder.own(sink)
        self._add(
            "sink",
            nodes.Sink(sink),
            None,
            settings,
            states=sink_states(sink, self._named("sink", settings)),
        )

    # ------------------------------------------------------------ building

    def _where(self) -> str:
        return " + ".join(_named_output(self._builder, each) for each in self._origins)

    def _named(self, method: str, settings: Settings | None = None) -> str:
        return named((settings or {}).get("uid"), method, after=self._where())

    def _inputs(self, port: int = 0) -> tuple[Input, ...]:
        return tuple(replace(each, port=port) for each in self._origins)

    def _add(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema | None,
        settings: Settings,
        **more: Any,
    ) -> LogicalOperator:
        self._builder.check_settings(settings, self._named(name, settings))
        return self._builder.add(
            name,
            node,
            schema,
            settings,
            inputs=self._read_by(settings),
            **more,
        )

    def _read_by(self, settings: Settings) -> tuple[Input, ...]:
        """The inputs of an operator that reads the rows of this stream, and no key."""
        return self._inputs()

    def _then(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema,
        settings: Settings,
        **more: Any,
    ) -> Stream:
        return self._emitted_by(self._add(name, node, schema, settings, **more))

    def _emitted_by(self, operator: LogicalOperator) -> Stream:
        return Stream(self._builder, operator.emits(), (Input(operator.id, Forward()),))


def _named_output(builder: GraphBuilder, origin: Input) -> str:
    side = f" (side output {origin.side!r})" if origin.side else ""
    return f"operator {builder.operators[origin.upstream].uid!r}{side}"
