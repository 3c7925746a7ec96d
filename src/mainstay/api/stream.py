"""Streams: rows of one schema on their way from operator to operator.

A stream is a description; every method returns a new one and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from mainstay.api.functions import CoKeyedProcess, KeyedBatchProcess, KeyedProcess, Process
from mainstay.api.graph import GraphBuilder, column_number
from mainstay.errors import GraphError
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.connector import Sink
from mainstay.runtime.operators.keyed import CoKeyedRows, KeyedBatches, KeyedRows
from mainstay.runtime.operators.rows import (
    AddKey,
    FilterRows,
    FlatMapRows,
    Make,
    MapBatches,
    MapRows,
    ProcessRows,
)
from mainstay.runtime.operators.sink import HANDLES, SinkOperator
from mainstay.runtime.spec import Broadcast, Forward, HashByKey, KeySpec, Partitioning, Rebalance
from mainstay.schema import format_schema, to_schema, to_type
from mainstay.state.declaration import StateInfo, declarations_of
from mainstay.state.hashing import hash_columns
from mainstay.state.values import ValueType

HIDDEN_KEY = "__key"


class Stream:
    """Rows of one schema. ``origins`` are the operators they come from, with how they come."""

    def __init__(
        self,
        builder: GraphBuilder,
        schema: pa.Schema,
        origins: tuple[tuple[int, Partitioning], ...],
    ) -> None:
        self._builder = builder
        self._origins = origins
        self.schema = schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({format_schema(self.schema)!r})"

    # ------------------------------------------------------------ functions

    def map(
        self,
        function: Callable[[Any], Any],
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """One row out for each row in."""
        out = to_schema(schema)
        factory = Make(MapRows, (function, self.schema, out))
        return self._then("map", factory, out, uid, parallelism)

    def flat_map(
        self,
        function: Callable[[Any], Any],
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Any number of rows out for each row in: yield them, or return a list."""
        out = to_schema(schema)
        factory = Make(FlatMapRows, (function, self.schema, out))
        return self._then("flat_map", factory, out, uid, parallelism)

    def filter(
        self,
        function: Callable[[Any], Any],
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Only the rows for which the function is true."""
        factory = Make(FilterRows, (function, self.schema))
        return self._then("filter", factory, self.schema, uid, parallelism)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A function of whole ``pyarrow.RecordBatch``es, in and out."""
        out = to_schema(schema)
        return self._then("map_batches", Make(MapBatches, (function, out)), out, uid, parallelism)

    def process(
        self,
        function: Process,
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`Process` function: rows out, with operator state."""
        _expect(function, Process, "process", "For keyed state call key_by(...) first.")
        out = to_schema(schema)
        states = _states(function, uid or "process", keyed_allowed=False)
        factory = Make(ProcessRows, (function, self.schema, out))
        return self._then("process", factory, out, uid, parallelism, states=states)

    # ------------------------------------------------------------ routing

    def union(self, *others: Stream) -> Stream:
        """The rows of several streams of the same schema, in no particular order."""
        origins = self._origins
        for other in others:
            if isinstance(other, KeyedStream):
                raise GraphError("union() of a keyed stream: call key_by(...) after union().")
            if other.schema != self.schema:
                raise GraphError(
                    f"union() of streams with different schemas: {self._where()} has "
                    f"{format_schema(self.schema)!r}, {other._where()} has "
                    f"{format_schema(other.schema)!r}. Make them equal with map(...)."
                )
            origins += other._origins
        return Stream(self._builder, self.schema, origins)

    def rebalance(self) -> Stream:
        """Deal the rows out evenly to the subtasks of what comes next."""
        return self._routed(Rebalance())

    def broadcast(self) -> Stream:
        """Give every row to every subtask of what comes next."""
        return self._routed(Broadcast())

    def _routed(self, partitioning: Partitioning) -> Stream:
        origins = tuple((operator, partitioning) for operator, _ in self._origins)
        return Stream(self._builder, self.schema, origins)

    def key_by(self, *columns: Any, uid: str | None = None) -> KeyedStream:
        """Group by columns, or by a function of the row: ``key_by(fn, "type")``."""
        if not columns:
            raise GraphError(f"{self._where()}: key_by() needs at least one column.")
        if callable(columns[0]):
            return self._key_by_function(columns, uid)
        where = f"{self._where()}.key_by"
        numbers = tuple(column_number(self.schema, column, where) for column in columns)
        fields = [self.schema.field(number) for number in numbers]
        arrow = fields[0].type if len(fields) == 1 else pa.struct(fields)
        _check_key_type(arrow, where)
        key = KeySpec(numbers, ValueType.of(arrow), tuple(columns))
        return KeyedStream(self._builder, self.schema, self._origins, key)

    def _key_by_function(self, arguments: tuple[Any, ...], uid: str | None) -> KeyedStream:
        if len(arguments) != 2:
            raise GraphError(
                f"{self._where()}: key_by(function, type) needs the type of the key, as in "
                'key_by(lambda row: row.name[0], "string").'
            )
        function, declared = arguments
        arrow = to_type(declared)
        _check_key_type(arrow, f"{self._where()}.key_by")
        field = pa.field(HIDDEN_KEY, arrow)
        keyed_schema = self.schema.append(field)
        added = self._then(
            "key_by", Make(AddKey, (function, self.schema, field)), keyed_schema, uid, None
        )
        key = KeySpec((len(self.schema),), ValueType.of(arrow), (HIDDEN_KEY,), hidden=True)
        return KeyedStream(self._builder, keyed_schema, added._origins, key)

    def connect(self, other: Stream) -> ConnectedStreams:
        """Two inputs for one function; the right one must be broadcast, or both keyed."""
        return ConnectedStreams(self, other)

    # ------------------------------------------------------------ ends

    def sink(self, sink: Sink, *, uid: str | None = None, parallelism: int | None = None) -> None:
        """The end of a stream."""
        if not isinstance(sink, Sink):
            raise GraphError(
                f"{self._where()}.sink(): {type(sink).__name__} is no sink. Use one of "
                "mainstay.connectors, or a subclass of mainstay.connectors.Sink."
            )
        self._add(
            "sink",
            Make(SinkOperator, (sink,)),
            None,
            uid,
            parallelism,
            states=(HANDLES,),
            is_sink=True,
        )

    # ------------------------------------------------------------ building

    def _where(self) -> str:
        return " + ".join(
            f"operator {self._builder.operators[operator].uid!r}" for operator, _ in self._origins
        )

    def _inputs(self, port: int = 0) -> tuple[Input, ...]:
        return tuple(Input(operator, how, port) for operator, how in self._origins)

    def _add(
        self,
        name: str,
        factory: Make,
        schema: pa.Schema | None,
        uid: str | None,
        parallelism: int | None,
        **more: Any,
    ) -> LogicalOperator:
        return self._builder.add(
            name,
            factory,
            schema,
            uid=uid,
            inputs=self._inputs(),
            parallelism=parallelism,
            **more,
        )

    def _then(
        self,
        name: str,
        factory: Make,
        schema: pa.Schema,
        uid: str | None,
        parallelism: int | None,
        **more: Any,
    ) -> Stream:
        operator = self._add(name, factory, schema, uid, parallelism, **more)
        return Stream(self._builder, schema, ((operator.id, Forward()),))


class KeyedStream(Stream):
    """A stream whose rows go to the owner of their key, where the key's state is."""

    def __init__(
        self,
        builder: GraphBuilder,
        schema: pa.Schema,
        origins: tuple[tuple[int, Partitioning], ...],
        key: KeySpec,
    ) -> None:
        hashed = tuple((operator, HashByKey(key)) for operator, _ in origins)
        super().__init__(builder, schema, hashed)
        self.key = key

    def process(  # type: ignore[override]
        self,
        function: KeyedProcess,
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`KeyedProcess` function: rows out, with the state of each row's key."""
        _expect(function, KeyedProcess, "process", "Without a key, subclass Process.")
        return self._keyed("process", KeyedRows, function, schema, uid, parallelism)

    def process_batches(
        self,
        function: KeyedBatchProcess,
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`KeyedBatchProcess` function of rows grouped by key."""
        _expect(function, KeyedBatchProcess, "process_batches", "")
        return self._keyed("process_batches", KeyedBatches, function, schema, uid, parallelism)

    def _keyed(
        self,
        name: str,
        operator: Any,
        function: Any,
        schema: Any,
        uid: str | None,
        parallelism: int | None,
    ) -> Stream:
        out = to_schema(schema)
        states = _states(function, uid or name, keyed_allowed=True)
        factory = Make(operator, (function, self.key, self.schema, out))
        return self._then(name, factory, out, uid, parallelism, states=states, key=self.key)

    def key_by(self, *columns: Any, uid: str | None = None) -> KeyedStream:
        raise GraphError(f"{self._where()}: key_by() twice in a row; the second one is enough.")

    def union(self, *others: Stream) -> Stream:
        raise GraphError("union() of a keyed stream: call key_by(...) after union().")


class ConnectedStreams:
    """Two streams that feed one function."""

    def __init__(self, left: Stream, right: Stream) -> None:
        if left._builder is not right._builder:
            raise GraphError("connect() of streams of two different environments.")
        self._left = left
        self._right = right
        self._check_keys()

    def _check_keys(self) -> None:
        left, right = self._left, self._right
        if isinstance(left, KeyedStream) and isinstance(right, KeyedStream):
            if left.key.type.ddl != right.key.type.ddl:
                raise GraphError(
                    f"connect() of streams with different key types: {left._where()} is keyed by "
                    f"{left.key.type.ddl}, {right._where()} by {right.key.type.ddl}."
                )
            return
        if isinstance(right, KeyedStream):
            raise GraphError("connect(): where only one side is keyed it must be the left one.")
        if any(not isinstance(how, Broadcast) for _, how in right._origins):
            raise GraphError(
                f"connect(): the right side ({right._where()}) must be keyed like the left one, "
                "or broadcast: connect(rules.broadcast())."
            )

    def process(
        self,
        function: CoKeyedProcess,
        schema: Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`CoKeyedProcess` function."""
        _expect(function, CoKeyedProcess, "connect().process", "")
        left, right = self._left, self._right
        out = to_schema(schema)
        left_key = left.key if isinstance(left, KeyedStream) else None
        right_key = right.key if isinstance(right, KeyedStream) else None
        states = _states(function, uid or "connect", keyed_allowed=left_key is not None)
        factory = Make(
            CoKeyedRows,
            (function, (left_key, right_key), (left.schema, right.schema), out),
        )
        operator = left._builder.add(
            "connect",
            factory,
            out,
            uid=uid,
            inputs=left._inputs(0) + right._inputs(1),
            parallelism=parallelism,
            states=states,
            key=left_key,
        )
        return Stream(left._builder, out, ((operator.id, Forward()),))


def _expect(function: Any, cls: type, method: str, hint: str) -> None:
    if isinstance(function, type):
        raise GraphError(f"{method}() got the class {function.__name__}; give it an instance.")
    if not isinstance(function, cls):
        raise GraphError(
            f"{method}() needs a subclass of {cls.__name__}, not {type(function).__name__}. {hint}"
        )


def _states(function: Any, where: str, *, keyed_allowed: bool) -> tuple[StateInfo, ...]:
    states = declarations_of(function)
    keyed = [info.name for info in states if info.is_keyed]
    if keyed and not keyed_allowed:
        raise GraphError(
            f"operator {where!r} declares keyed state ({', '.join(keyed)}) but its stream has no "
            "key. Call key_by(...) first, or declare an OperatorListState."
        )
    return states


def _check_key_type(arrow: pa.DataType, where: str) -> None:
    try:
        hash_columns([pa.array([], type=arrow)])
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error
