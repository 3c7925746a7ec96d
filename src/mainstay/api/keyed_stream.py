"""Keyed streams: rows that go to the owner of their key, where the key's state is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from mainstay.api.aggregates import HIDDEN_KEY_NAME, checked_aggregation, reduction_of
from mainstay.api.checks import (
    check_callable,
    check_process,
    checked_schema,
    checked_states,
)
from mainstay.api.functions import KeyedBatchProcess, KeyedProcess
from mainstay.api.graph import GraphBuilder
from mainstay.api.reduce import RunningReduce, reduced_state
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input
from mainstay.runtime.spec import Forward, HashByKey, KeySpec, Partitioning
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.info import StateInfo


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
        origins: tuple[tuple[int, Partitioning], ...],
        key: KeySpec,
    ) -> None:
        hashed = tuple((operator, HashByKey(key)) for operator, _ in origins)
        super().__init__(builder, schema, hashed)
        self._carried = carried
        self.key = key

    def process(  # type: ignore[override]
        self,
        function: KeyedProcess,
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`KeyedProcess` function: rows out, with the state of each row's key."""
        where = self._named("process", uid)
        hint = "On a keyed stream, subclass KeyedProcess."
        check_process(function, KeyedProcess, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=True)
        return self._keyed(
            "process", nodes.Keyed(function, self.key), out, states, uid, parallelism
        )

    def process_batches(
        self,
        function: KeyedBatchProcess,
        schema: Any = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A :class:`KeyedBatchProcess` function of rows grouped by key."""
        where = self._named("process_batches", uid)
        hint = "For one row at a time call process(...)."
        check_process(function, KeyedBatchProcess, ("process",), where, hint)
        out = checked_schema(schema, where)
        states = checked_states(function, where, keyed_allowed=True)
        node = nodes.KeyedBatches(function, self.key)
        return self._keyed("process_batches", node, out, states, uid, parallelism)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        uid: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """A running reduce: for each row, the fold of its key's rows so far.

        ``function(reduced, row)`` returns a row with the columns of the stream; the first row of
        a key is its own fold.

        ``operator.add``, ``min`` and ``max`` are known, and applied to each column outside the
        key by itself, as :meth:`aggregate` would: they emit a row per key and batch.
        """
        where = self._named("reduce", uid)
        known = reduction_of(function, self.schema, self.key, where)
        if known is not None:
            return self._aggregated("reduce", known, tuple(self.schema.names), uid, parallelism)
        check_callable(function, where, rows=2)
        states = (reduced_state(self.schema),)
        node = nodes.Keyed(RunningReduce(function), self.key)
        return self._keyed("reduce", node, self.schema, states, uid, parallelism)

    def aggregate(
        self, *, uid: str | None = None, parallelism: int | None = None, **aggregates: Aggregate
    ) -> Stream:
        """Running aggregates of each key: ``aggregate(total=ms.sum("amount"), n=ms.count())``.

        Emits the columns of the key (``key`` where a function made it) and one for each aggregate:
        a row for each key and batch with rows of that key. How rows are divided into batches is
        not defined; the last row of a key has the aggregates of all its rows. Rows are combined
        before they are sent to the owner of their key, so ``first``, ``last`` and ``collect``
        keep the order of the rows that one subtask sends; between subtasks there is none.
        """
        where = self._named("aggregate", uid)
        key_names = (HIDDEN_KEY_NAME,) if self.key.hidden else self.key.names
        checked_aggregation(aggregates, self.schema, key_names, where)
        return self._aggregated(
            "aggregate", aggregates, (*key_names, *aggregates), uid, parallelism
        )

    def _aggregated(
        self,
        name: str,
        aggregates: dict[str, Aggregate],
        emitted: tuple[str, ...],
        uid: str | None,
        parallelism: int | None,
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
        self._builder.parallelism_of(parallelism, self._named(name, uid))
        node = nodes.Aggregate(aggregation, self.key, self._carried, order)
        return self._keyed(name, node, schema, (aggregation.state(),), uid, parallelism)

    def _keyed(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema,
        states: tuple[StateInfo, ...],
        uid: str | None,
        parallelism: int | None,
    ) -> Stream:
        added = self._builder.add(
            name,
            node,
            schema,
            uid=uid,
            inputs=self._inputs(),
            parallelism=parallelism,
            states=states,
            key=self.key,
        )
        return self._emitted_by(added)

    def _read_by(self, parallelism: int | None) -> tuple[Input, ...]:
        """Rows go to the owner of their key also where nobody asks for it, but without it."""
        if not self.key.hidden:
            return self._inputs()
        dropped = self._builder.add(
            "drop_key",
            nodes.MapBatches(_without_last_column),
            self.schema,
            uid=None,
            inputs=self._inputs(),
            parallelism=parallelism,
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
            f"{self._where()}: rebalance() or broadcast() after key_by(...) would undo it. Leave "
            "one of them out."
        )


def _without_last_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(range(batch.num_columns - 1))
