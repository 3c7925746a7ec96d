"""Aggregating operators: whole batches folded into columnar state.

``Combine`` stands before the shuffle, in the chain of the sender: it turns the rows it has
gathered into one partial result per key, where that makes them fewer. ``AggregateByKey`` stands
behind it, at the key's owner: it merges partial results, or rows as they are, into the state, and
emits what is then kept for each key it has touched.

Both gather rows while there is more to do, because a batch costs about as much as some thousands of
rows, and many rows of a key cost as much as one once they are combined. They hold on to nothing
when the worker is idle, before a marker, and at the end, and not for long otherwise.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.spec import KeySpec
from mainstay.schema import format_type
from mainstay.schema.sizes import joined
from mainstay.schema.transpose import shown
from mainstay.state.accumulating import Column, DoesNotFitError, accumulating, result
from mainstay.state.aggregates import STATE, Aggregation
from mainstay.state.backends.contract import Work
from mainstay.state.columns import ColumnsHandle
from mainstay.state.grouping import Grouper, Groups

GATHERED_ROWS = 1 << 17
LINGER_S = 0.03
"""How long rows are gathered under load: the more there are, the fewer keys there are for each."""
WORTHWHILE = 0.65
"""Groups per row above which combining costs more than it saves."""
OTHER_FORM = 1
"""The input for rows where partial results are usual, and for those where rows are."""
PASSED_ON = 16
"""Batches that are passed on as they are before combining is tried again."""


class Gathering(Operator):
    """Gathers batches, and works on all of them at once when there are enough or it is time."""

    def __init__(self, key: KeySpec, aggregation: Aggregation, schema: pa.Schema) -> None:
        self._key = key
        self._aggregation = aggregation
        self._schema = schema
        self._parts = [accumulating(each) for each in aggregation.accumulators]
        self._grouper = Grouper()
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._since = 0.0

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if not batch.num_rows:
            return
        if not self._gathered:
            self._since = self.context.clock.monotonic()
        self._gathered.append(batch)
        self._rows += batch.num_rows
        if self._rows >= GATHERED_ROWS:
            self.flush()

    def flush(self, *, idle: bool = True) -> bool:
        if not self._gathered:
            return False
        if not idle and self.context.clock.monotonic() < self._since + LINGER_S:
            return False
        gathered, self._gathered, self._rows = self._gathered, [], 0
        for batch in joined(gathered):
            self.out(self.emitted(batch))
        return True

    def before_marker(self, epoch: Epoch) -> None:
        self.flush()

    def end_of_input(self) -> None:
        self.flush()

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def partials(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """A partial result of each row, for each accumulator."""
        return [part.first_partials(batch) for part in self._parts]

    def combined(self, partials: Sequence[pa.Array], groups: Groups) -> list[Column]:
        pairs = zip(self._parts, partials, strict=True)
        return [part.combine(column, groups) for part, column in pairs]

    def key_column(self, batch: pa.RecordBatch) -> pa.Array:
        """The key as one column: a struct where it has several."""
        columns = self.key_columns(batch)
        if len(columns) == 1:
            return columns[0]
        return pa.StructArray.from_arrays(columns, fields=list(self._key.type.arrow))

    def key_columns(self, batch: pa.RecordBatch, groups: Groups | None = None) -> list[pa.Array]:
        """The columns of the key, of every row or of one row for each group."""
        columns = [batch.column(number) for number in self._key.columns]
        if groups is None or groups.codes is None:
            return columns
        rows = pa.array(groups.rows)
        return [column.take(rows) for column in columns]

    @property
    def known_as(self) -> str:
        """The uid that the author of the job knows."""
        return self.context.uid

    def refused(self, error: DoesNotFitError, keys: pa.Array) -> StateTypeError:
        """The error of a sum that is beyond its type, with all that its author can look for."""
        key = keys[error.position].as_py()
        accumulator = error.accumulator
        return StateTypeError(
            f"operator {self.known_as!r}: the sum {accumulator.of!r} of key {shown(key)} does "
            f"not fit the type {format_type(accumulator.type)}. Sum a column of doubles or of "
            "wider decimals: convert it with map_batches(...) before key_by(...)."
        )


class Combine(Gathering):
    """One row of partial results for each key of what it has gathered, or one for each row."""

    def __init__(self, key: KeySpec, aggregation: Aggregation, schema: pa.Schema, of: str) -> None:
        super().__init__(key, aggregation, schema)
        self._of = of
        self._to_pass = 0

    @property
    def known_as(self) -> str:
        # Nobody wrote the combiner: an author looks for the aggregation.
        return self._of

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        partials = self.partials(batch)
        groups = self._groups(batch)
        if groups is None or groups.codes is None:
            columns = [*self.key_columns(batch), *partials]
        else:
            columns = [*self.key_columns(batch, groups), *self._arrays(batch, partials, groups)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _groups(self, batch: pa.RecordBatch) -> Groups | None:
        """The groups of the rows; None while experience says that there are too many."""
        if self._to_pass:
            self._to_pass -= 1
            return None
        groups = self._grouper.group(self.key_column(batch))
        if groups.count > WORTHWHILE * batch.num_rows:
            self._to_pass = PASSED_ON
        return groups

    def _arrays(
        self, batch: pa.RecordBatch, partials: Sequence[pa.Array], groups: Groups
    ) -> list[pa.Array]:
        try:
            columns = self.combined(partials, groups)
        except DoesNotFitError as error:
            keys = self.key_column(batch).take(pa.array(groups.rows))
            raise self.refused(error, keys) from None
        return [part.to_arrow(c) for part, c in zip(self._parts, columns, strict=True)]


class AggregateByKey(Gathering):
    """Folds what it has gathered into the state and emits a row for each key.

    What comes in are rows of the stream, or, ``combined``, what a ``Combine`` emits. A restored
    snapshot may hold the other of the two, whose key is the ``other_key``.
    """

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        order: tuple[int, ...],
        combined: bool,
        other_key: KeySpec | None = None,
    ) -> None:
        super().__init__(key, aggregation, schema)
        self._order = order
        self._combined = combined
        self._other_key = other_key

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._state: ColumnsHandle = context.keyed.handles[STATE]

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        assert self.context.keyed is not None
        key = self._other_key if port == OTHER_FORM else self._key
        assert key is not None
        columns = [batch.column(number) for number in key.columns]
        if len(columns) > 1:
            columns = [pa.StructArray.from_arrays(columns, fields=list(key.type.arrow))]
        return self.context.keyed.read_ahead(key.type.from_array(columns[0]))

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if port != OTHER_FORM:
            super().process(batch, port)
            return
        self.flush()
        self._change_form()
        super().process(batch, port)
        self.flush()
        self._change_form()

    def _change_form(self) -> None:
        assert self._other_key is not None
        self._key, self._other_key = self._other_key, self._key
        self._combined = not self._combined

    def partials(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if not self._combined:
            return super().partials(batch)
        return batch.columns[len(self._key.columns) :]  # type: ignore[no-any-return]

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = self.key_column(batch)
        groups = self._grouper.group(keys)
        if groups.codes is not None:
            keys = keys.take(pa.array(groups.rows))
        try:
            kept = self._state.fold(keys, self.combined(self.partials(batch), groups))
        except DoesNotFitError as error:
            raise self.refused(error, keys) from None
        results = [result(output, kept, self._parts) for output in self._aggregation.outputs]
        columns = [*self.key_columns(batch, groups), *results]
        return pa.RecordBatch.from_arrays([columns[n] for n in self._order], schema=self._schema)
