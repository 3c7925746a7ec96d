"""Aggregating operators: whole batches folded into columnar state.

``Combine`` stands before the shuffle, in the chain of the sender: it turns the rows it has
gathered into one partial result per key, where that makes them fewer. ``AggregateByKey`` stands
behind it, at the key's owner: it merges partial results, or rows as they are, into the state, and
emits what is then kept for each key it has touched.

Both gather rows while there is more to do: many rows of a key cost as much as one once they are
combined.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import OperatorContext, user_error
from mainstay.runtime.operators.gathering import GatheringOperator
from mainstay.runtime.operators.window_results import WindowResults
from mainstay.runtime.spec import KeySpec
from mainstay.schema import format_type
from mainstay.schema.transpose import shown
from mainstay.state.accumulating import (
    AggregateFailedError,
    Column,
    DoesNotFitError,
    accumulating,
    result,
)
from mainstay.state.aggregates import STATE, Aggregation
from mainstay.state.backends.contract import Work
from mainstay.state.columns import ColumnsHandle
from mainstay.state.grouping import Grouper, Groups

Codes = npt.NDArray[np.int64]

WORTHWHILE = 0.65
"""Groups per row above which combining costs more than it saves."""
OTHER_FORM = 1
"""The input for rows where partial results are usual, and for those where rows are."""
PASSED_ON = 16
"""Batches that are passed on as they are before combining is tried again."""


class Gathering(GatheringOperator):
    """Gathers the rows that are to be aggregated."""

    results: WindowResults | None = None
    """What is made of the results of windows; None where they are emitted as they are."""

    def __init__(self, key: KeySpec, aggregation: Aggregation, schema: pa.Schema) -> None:
        super().__init__()
        self._key = key
        self._aggregation = aggregation
        self._schema = schema
        self._parts = [accumulating(each) for each in aggregation.accumulators]
        self._grouper = Grouper()

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if self.results is not None:
            self.out = self.results.over(self.out, context)

    def on_complete(self, epoch: Epoch) -> None:
        if self.results is not None:
            self.results.completed(epoch, self.context)

    def close(self) -> None:
        if self.results is not None:
            self.results.close(self.context)

    def take(self, batch: pa.RecordBatch) -> None:
        self.out(self.emitted(batch))

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise NotImplementedError

    def combined(self, batch: pa.RecordBatch, groups: Groups) -> list[Column]:
        """A partial result of each group of rows, for each accumulator."""
        return [part.combine_rows(batch, groups) for part in self._parts]

    def combined_apart(self, batch: pa.RecordBatch, groups: Groups) -> list[Column]:
        """The same as arrays, in which single groups can be changed."""
        columns = zip(self._parts, self.combined(batch, groups), strict=True)
        return [part.apart(column) for part, column in columns]

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

    @contextmanager
    def blamed(self, keys: pa.Array | None = None, codes: Codes | None = None) -> Iterator[None]:
        """Errors of aggregates name what their author can look for. What is worked on belongs to
        these keys, by their numbers if any; where they are left out, the error knows them."""
        try:
            yield
        except DoesNotFitError as error:
            of = keys if keys is None or codes is None else keys.take(pa.array(codes))
            raise self.refused(error, of) from None
        except AggregateFailedError as error:
            raise self.failed(error) from error.cause

    def outputs(self, keys: pa.Array, columns: list[Column]) -> list[pa.Array]:
        """The results of what is kept for some keys."""
        with self.blamed(keys):
            return [result(output, columns, self._parts) for output in self._aggregation.outputs]

    def refused(self, error: DoesNotFitError, keys: pa.Array | None) -> StateTypeError:
        """The error of a sum that is beyond its type, with all that its author can look for."""
        keys = keys if error.keys is None else error.keys
        assert keys is not None, "a merge without a batch says which keys these are"
        key = keys[error.position].as_py()
        accumulator = error.accumulator
        return StateTypeError(
            f"operator {self.known_as!r}: the sum {accumulator.of!r} of key {shown(key)} does "
            f"not fit the type {format_type(accumulator.type)}. Sum a column of doubles or of "
            "wider decimals: convert it with map_batches(...) before key_by(...)."
        )

    def failed(self, error: AggregateFailedError) -> Exception:
        """The error of what its author wrote for an aggregate."""
        if isinstance(error.cause, StateTypeError):
            return StateTypeError(f"operator {self.known_as!r}: {error.cause}")
        context = replace(self.context, uid=self.known_as)
        return user_error(context, error.cause, error.hook)


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
        groups = self._groups(batch)
        try:
            if groups is None or groups.codes is None:
                partials = [part.first_partials(batch) for part in self._parts]
                columns = [*self.key_columns(batch), *partials]
            else:
                columns = [*self.key_columns(batch, groups), *self._arrays(batch, groups)]
        except AggregateFailedError as error:
            raise self.failed(error) from error.cause
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

    def _arrays(self, batch: pa.RecordBatch, groups: Groups) -> list[pa.Array]:
        try:
            columns = self.combined(batch, groups)
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

    def combined(self, batch: pa.RecordBatch, groups: Groups) -> list[Column]:
        if not self._combined:
            return super().combined(batch, groups)
        partials = zip(self._parts, batch.columns[len(self._key.columns) :], strict=True)
        return [part.combine(column, groups) for part, column in partials]

    def emitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = self.key_column(batch)
        groups = self._grouper.group(keys)
        if groups.codes is not None:
            keys = keys.take(pa.array(groups.rows))
        with self.blamed(keys):
            kept = self._state.fold(keys, self.combined(batch, groups))
        columns = [*self.key_columns(batch, groups), *self.outputs(keys, kept)]
        return pa.RecordBatch.from_arrays([columns[n] for n in self._order], schema=self._schema)
