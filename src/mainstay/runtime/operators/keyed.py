"""Keyed operators: functions that see the rows of a key with the state of that key.

This is a hot file (benchmarks/record_path.py): one attribute is set per row and one function
called; everything else happens once per batch.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, OperatorContext, ProcessContext, user_error
from mainstay.runtime.operators.rows import (
    ROW_FUNCTION_ROWS,
    close_function,
    collect,
    fitted,
    notify_function,
    open_function,
)
from mainstay.runtime.spec import KeySpec
from mainstay.schema import batch_to_rows, row_class, rows_to_batch
from mainstay.state.keyed import NO_KEY


class KeyReader:
    """Takes the keys and the visible columns out of the batches of one input."""

    def __init__(self, key: KeySpec, schema: pa.Schema) -> None:
        self._key = key
        self._visible = [n for n in range(len(schema)) if not key.hidden or n not in key.columns]
        self.schema = pa.schema([schema.field(n) for n in self._visible])
        self.row = row_class(self.schema)

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        """The key as one column: a struct where it has several."""
        columns = [batch.column(number) for number in self._key.columns]
        if len(columns) == 1:
            return columns[0]
        return pa.StructArray.from_arrays(columns, fields=list(self._key.type.arrow))

    def keys(self, batch: pa.RecordBatch) -> list[Any]:
        return self._key.type.from_array(self.column(batch))

    def visible(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(self._visible) if self._key.hidden else batch

    def rows(self, batch: pa.RecordBatch) -> list[Any]:
        return batch_to_rows(self.visible(batch), self.row)


class KeyedFunction(Operator):
    """What keyed operators share: a function with states and a context with a key."""

    def __init__(self, function: Any, output_schema: pa.Schema) -> None:
        self._function = function
        self._schema = output_schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        view = context.key_context
        assert isinstance(view, ProcessContext)
        self._view = view
        open_function(self._function, view, context)

    def emit_rows(self, rows: list[Any]) -> None:
        if not rows:
            return
        try:
            batch = rows_to_batch(rows, self._schema, f"operator {self.context.uid!r}")
        except Exception as error:
            raise user_error(self.context, error) from error
        self.out(batch)

    def on_complete(self, epoch: Epoch) -> None:
        notify_function(self._function, epoch, self.context)

    def close(self) -> None:
        close_function(self._function, self.context)


class KeyedRows(KeyedFunction):
    """A ``KeyedProcess`` function, called once per row."""

    max_slice_rows = ROW_FUNCTION_ROWS

    def __init__(
        self, function: Any, key: KeySpec, input_schema: pa.Schema, output_schema: pa.Schema
    ) -> None:
        super().__init__(function, output_schema)
        self._reader = KeyReader(key, input_schema)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            out = run_rows(
                self._function.process,
                self._view,
                self._reader.keys(batch),
                self._reader.rows(batch),
            )
        except Exception as error:
            raise user_error(self.context, error) from error
        self.emit_rows(out)


class CoKeyedRows(KeyedFunction):
    """A ``CoKeyedProcess`` function: two inputs, one state; the right one may be broadcast."""

    max_slice_rows = ROW_FUNCTION_ROWS

    def __init__(
        self,
        function: Any,
        keys: tuple[KeySpec | None, KeySpec | None],
        schemas: tuple[pa.Schema, pa.Schema],
        output_schema: pa.Schema,
    ) -> None:
        super().__init__(function, output_schema)
        self._readers = [
            None if key is None else KeyReader(key, schema)
            for key, schema in zip(keys, schemas, strict=True)
        ]
        self._rows = [row_class(schema) for schema in schemas]

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        method = self._function.process_right if port else self._function.process_left
        reader = self._readers[port]
        try:
            if reader is None:
                rows = batch_to_rows(batch, self._rows[port])
                keys: list[Any] = [NO_KEY] * len(rows)
            else:
                rows, keys = reader.rows(batch), reader.keys(batch)
            out = run_rows(method, self._view, keys, rows)
        except Exception as error:
            raise user_error(self.context, error) from error
        self.emit_rows(out)


def run_rows(method: Any, view: ProcessContext, keys: list[Any], rows: list[Any]) -> list[Any]:
    """Call a method for each row with its key in place, and gather what it gives."""
    out: list[Any] = []
    if inspect.isgeneratorfunction(method):
        extend = out.extend
        for view.key, row in zip(keys, rows, strict=True):
            extend(method(row, view))
        return out
    for view.key, row in zip(keys, rows, strict=True):
        collect(method(row, view), out)
    return out


@dataclass(frozen=True, slots=True)
class GroupedBatch:
    """A batch ordered so that the rows of a key are adjacent, in the order they came.

    ``keys[i]`` owns the rows from ``offsets[i]`` to ``offsets[i + 1]`` of ``batch``.
    """

    keys: list[Any]
    batch: pa.RecordBatch
    offsets: np.ndarray

    def groups(self) -> list[tuple[Any, pa.RecordBatch]]:
        """Each key with its rows."""
        bounds = self.offsets.tolist()
        return [
            (key, self.batch.slice(start, end - start))
            for key, start, end in zip(self.keys, bounds[:-1], bounds[1:], strict=True)
        ]


class KeyedBatches(KeyedFunction):
    """A ``KeyedBatchProcess`` function, called once per batch."""

    def __init__(
        self, function: Any, key: KeySpec, input_schema: pa.Schema, output_schema: pa.Schema
    ) -> None:
        super().__init__(function, output_schema)
        self._reader = KeyReader(key, input_schema)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        self._view.key = NO_KEY
        try:
            result = self._function.process(self._grouped(batch), self._view)
            if isinstance(result, pa.RecordBatch):
                result = fitted(result, self._schema, self.context.uid)
            out: list[Any] = []
            if not isinstance(result, pa.RecordBatch):
                collect(result, out)
        except Exception as error:
            raise user_error(self.context, error) from error
        if isinstance(result, pa.RecordBatch):
            self.out(result)
        else:
            self.emit_rows(out)

    def _grouped(self, batch: pa.RecordBatch) -> GroupedBatch:
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(key, len(numbers)) for key in self._reader.keys(batch)]
        order = np.argsort(np.array(codes, np.int64), kind="stable")
        counts = np.bincount(codes, minlength=len(numbers))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return GroupedBatch(
            list(numbers), self._reader.visible(batch).take(pa.array(order)), offsets
        )
