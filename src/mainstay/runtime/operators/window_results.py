"""What becomes of the rows of a window: a function of the author is called, or they are emitted.

The operators of windows keep rows as an accumulator, a list of structs, and emit what they would
emit of any aggregate: the key, the bounds, the list. One of these makes something else of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Emit, OperatorContext, user_error
from mainstay.runtime.operators.rows import close_function, collect, notify_function
from mainstay.runtime.operators.taken import Taking
from mainstay.schema import batch_to_rows, row_class, rows_to_batches
from mainstay.state.values import ValueType

WINDOW_START, WINDOW_END, IS_FINAL = "window_start", "window_end", "is_final"
ROWS = "window_rows_kept"
"""The column with the rows."""


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """The window that a function is called for. It contains its start and not its end; one of a
    number of rows has neither."""

    start: datetime | None
    end: datetime | None
    is_final: bool = True
    """Whether it is the last call for this key and window."""


class WindowRows:
    """The rows of a key in a window, in the order in which they came.

    It is a sequence of rows; ``batch`` is the same in columns.
    """

    __slots__ = ("_made", "_rows", "batch")

    def __init__(self, batch: pa.RecordBatch, made: Any) -> None:
        self.batch: pa.RecordBatch = batch
        self._made = made
        self._rows: list[Any] | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __getitem__(self, number: Any) -> Any:
        return self._all()[number]

    def _all(self) -> list[Any]:
        if self._rows is None:
            self._rows = list(batch_to_rows(self.batch, self._made))
        return self._rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._all()!r})"


@dataclass(frozen=True, slots=True)
class CallFunction:
    """Calls a ``WindowProcess``. ``taken`` is what the operator of the windows emits, whose first
    ``keys`` columns are the key."""

    function: Any
    taken: pa.Schema
    schema: pa.Schema
    key: ValueType
    keys: int

    def over(self, out: Emit, context: OperatorContext) -> Emit:
        """What takes the results of windows and emits what the function gives."""
        try:
            self.function.open(context.row_context)
        except BaseException as error:
            raise user_error(context, error, "open") from error
        rows = self.taken.field(ROWS).type.value_type
        made, taking = row_class(pa.schema(list(rows))), Taking.of(self.schema)

        def emit(batch: pa.RecordBatch) -> None:
            found: list[Any] = []
            try:
                for key, window, some in self._windows(batch, made):
                    context.row_context.key = context.row_context.current_key = key
                    given = self.function.process(some, window, context.row_context)
                    collect(given, found, taking)
                where = f"operator {context.uid!r}"
                batches = list(rows_to_batches(found, self.schema, where)) if found else []
            except BaseException as error:
                raise user_error(
                    context, error, function=self.function.process, may_list=True
                ) from error
            finally:
                context.row_context.leave()
            for each in batches:
                out(each)

        return emit

    def _windows(
        self, batch: pa.RecordBatch, made: Any
    ) -> Iterator[tuple[Any, WindowBounds, WindowRows]]:
        keys = batch.columns[: self.keys]
        column = keys[0]
        if self.keys > 1:
            column = pa.StructArray.from_arrays(keys, fields=list(self.key.arrow))
        names = batch.schema.names
        lists = batch.column(ROWS)
        every = pa.RecordBatch.from_struct_array(lists.flatten())
        ends = np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False)).tolist()
        bounds = [
            batch.column(name).to_pylist() if name in names else [given] * batch.num_rows
            for name, given in ((WINDOW_START, None), (WINDOW_END, None), (IS_FINAL, True))
        ]
        first = 0
        for key, end, *window in zip(self.key.from_array(column), ends, *bounds, strict=True):
            yield key, WindowBounds(*window), WindowRows(every.slice(first, end - first), made)
            first = end

    def completed(self, epoch: Epoch, context: OperatorContext) -> None:
        """An epoch is committed."""
        notify_function(self.function, epoch, context)

    def close(self, context: OperatorContext) -> None:
        """The job ends in good order."""
        close_function(self.function, context)


@dataclass(frozen=True, slots=True)
class EmitRows:
    """Emits the rows themselves, each with the bounds of its window."""

    schema: pa.Schema
    taken: pa.Schema

    def over(self, out: Emit, context: OperatorContext) -> Emit:
        """What takes the results of windows and emits their rows."""

        def emit(batch: pa.RecordBatch) -> None:
            lists = batch.column(ROWS)
            lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
            of = pa.array(np.repeat(np.arange(len(lists)), lengths))
            rows = lists.flatten().flatten()
            more = [batch.column(name).take(of) for name in self.schema.names[len(rows) :]]
            out(pa.RecordBatch.from_arrays([*rows, *more], schema=self.schema))

        return emit

    def completed(self, epoch: Epoch, context: OperatorContext) -> None:
        """Nobody is to be told."""

    def close(self, context: OperatorContext) -> None:
        """There is nothing to be closed."""


WindowResults = CallFunction | EmitRows
