"""Streams: rows of one schema that flow from operator to operator.

A stream is a description; every method returns a new one and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.checks import (
    check_callable,
    check_filter,
    check_process,
    checked_schema,
    checked_states,
    described,
)
from mainstay.api.connect import ConnectedStreams
from mainstay.api.data_sources import as_sink
from mainstay.api.expressions import Column, refuse_pyspark
from mainstay.api.functions import Process
from mainstay.api.graph import GraphBuilder, named
from mainstay.api.iterate import iterate
from mainstay.api.keys import chosen_key
from mainstay.errors import GraphError, MainstayError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.connector import Sink
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.spec import Broadcast, Forward, KeySpec, Partitioning, Rebalance
from mainstay.schema import format_schema

if TYPE_CHECKING:
    from mainstay.api.keyed_stream import KeyedStream


@with_own_frames
class Stream:
    """Rows of one schema. ``origins`` are the operators they come from, with how they come."""

    key: KeySpec | None = None

    def __init__(
        self,
        builder: GraphBuilder,
        schema: pa.Schema,
        origins: tuple[tuple[int, Partitioning], ...],
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
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """One row out for each row in."""
        where = self._named("map", uid)
        check_callable(function, where)
        out = checked_schema(schema, where)
        return self._then("map", nodes.Map(function), out, uid, parallelism)

    def flat_map(
        self,
        function: Callable[[Any], Any],
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Any number of rows out for each row in: yield them, or return a list."""
        where = self._named("flat_map", uid)
        check_callable(function, where, may_yield=True)
        out = checked_schema(schema, where)
        return self._then("flat_map", nodes.FlatMap(function), out, uid, parallelism)

    def filter(
        self,
        condition: Callable[[Any], Any] | Column | pc.Expression,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Only the rows for which a function of the row is true.

        An expression of the columns, as in ``filter(ms.col("amount") > 5)``, is evaluated on whole
        batches and many times as fast; rows for which it is null are left out. Expressions of
        Arrow (``pc.field("amount") > 5``) are taken as well.
        """
        where = self._named("filter", uid)
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
        return self._then("filter", node, self.schema, uid, parallelism)

    def filter_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Only the rows for which a function of the whole ``pyarrow.RecordBatch`` is true.

        It returns a boolean for each row, as an array of pyarrow or numpy; null leaves a row out.
        """
        check_callable(function, self._named("filter_batches", uid))
        node = nodes.FilterBatches(function)
        return self._then("filter_batches", node, self.schema, uid, parallelism)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A function of whole ``pyarrow.RecordBatch``es, in and out."""
        where = self._named("map_batches", uid)
        check_callable(function, where)
        out = checked_schema(schema, where)
        return self._then("map_batches", nodes.MapBatches(function), out, uid, parallelism)

    def process(
        self,
        function: Process,
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`Process` function: rows out, with operator state."""
        where = self._named("process", uid)
        hint = "For a KeyedProcess call key_by(...) first."
        check_process(function, Process, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=False)
        node = nodes.Process(function)
        return self._then("process", node, out, uid, parallelism, states=states)

    # ------------------------------------------------------------ routing

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

    def _routed(self, partitioning: Partitioning) -> Stream:
        origins = tuple((operator, partitioning) for operator, _ in self._origins)
        return Stream(self._builder, self.schema, origins)

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
        where = self._named("key_by", uid)
        if migrate_key is not None:
            check_callable(migrate_key, f"{where}, migrate_key")
        if any(isinstance(how, Broadcast) for _, how in self._origins):
            raise GraphError(f"{where}: a broadcast stream goes to every subtask and has no key.")
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
        same = {self._builder.operators[operator].parallelism for operator, _ in self._origins}
        beside = self._origins[0][0] if len(same) == 1 else None
        added = self._then("key_by", key.node, key.carried, uid, None, beside=beside)
        return self._keyed_by(key.spec, key.carried, added._origins)

    def _keyed_by(
        self, key: KeySpec, carried: pa.Schema, origins: tuple[tuple[int, Partitioning], ...]
    ) -> KeyedStream:
        from mainstay.api.keyed_stream import KeyedStream

        return KeyedStream(self._builder, self.schema, carried, origins, key)

    def connect(self, other: Stream) -> ConnectedStreams:
        """Two inputs for one function; the right one must be broadcast, or both keyed."""
        self._check_beside(other, "connect")
        return ConnectedStreams(self, other)

    def iterate(
        self,
        body: Callable[[Stream], tuple[Stream, Stream]],
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        round_column: str | None = None,
        max_rounds: int | None = None,
        memory: int | None = None,
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
            uid=uid,
            parallelism=parallelism,
            round_column=round_column,
            max_rounds=max_rounds,
            memory=memory,
        )

    # ------------------------------------------------------------ ends

    def sink(
        self, sink: Sink | Any, *, uid: str | None = None, parallelism: int | None = None
    ) -> None:
        """The end of a stream: a sink, or a PySpark ``DataSource`` with a ``streamWriter``."""
        sink = as_sink(sink, self.schema, self._named("sink", uid))
        if not isinstance(sink, Sink):
            raise GraphError(
                f"{self._named('sink', uid)} needs a sink, not {described(sink)}. Give it an "
                "instance of one of mainstay.connectors, or of your own subclass of "
                "mainstay.connectors.Sink."
            )
        try:
            sink.check_schema(self.schema)
        except MainstayError as error:
            raise GraphError(f"{self._named('sink', uid)}: {error}") from error
        sink = self._builder.own(sink)
        self._add(
            "sink",
            nodes.Sink(sink),
            None,
            uid,
            parallelism,
            states=(HANDLES,),
        )

    # ------------------------------------------------------------ building

    def _where(self) -> str:
        return " + ".join(
            f"operator {self._builder.operators[operator].uid!r}" for operator, _ in self._origins
        )

    def _named(self, method: str, uid: Any) -> str:
        return named(uid, method, after=self._where())

    def _inputs(self, port: int = 0) -> tuple[Input, ...]:
        return tuple(Input(operator, how, port) for operator, how in self._origins)

    def _add(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema | None,
        uid: str | None,
        parallelism: int | None,
        **more: Any,
    ) -> LogicalOperator:
        self._builder.parallelism_of(parallelism, self._named(name, uid))
        return self._builder.add(
            name,
            node,
            schema,
            uid=uid,
            inputs=self._read_by(parallelism),
            parallelism=parallelism,
            **more,
        )

    def _read_by(self, parallelism: int | None) -> tuple[Input, ...]:
        """The inputs of an operator that reads the rows of this stream, and no key."""
        return self._inputs()

    def _then(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema,
        uid: str | None,
        parallelism: int | None,
        **more: Any,
    ) -> Stream:
        return self._emitted_by(self._add(name, node, schema, uid, parallelism, **more))

    def _emitted_by(self, operator: LogicalOperator) -> Stream:
        assert operator.schema is not None
        return Stream(self._builder, operator.schema, ((operator.id, Forward()),))
