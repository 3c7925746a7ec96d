"""Keyed operators: functions that see the rows of a key with the state of that key.

This is a hot file (benchmarks/record_path.py): one attribute is set per row and one function
called; everything else happens once per batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.aside import Aside
from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.rows import (
    ROW_FUNCTION_ROWS,
    abort_function,
    close_function,
    collect,
    cut_function,
    fitted,
    notify_function,
    open_function,
)
from mainstay.runtime.operators.taken import Taking
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import KeySpec
from mainstay.schema import columns_to_rows, row_class, rows_to_batches, values_of
from mainstay.state.backends.contract import Work
from mainstay.state.codes import codes_of, grouped
from mainstay.state.values import Keys


class KeyReader:
    """Takes the keys and the visible columns out of the batches of one input."""

    def __init__(self, key: KeySpec, schema: pa.Schema) -> None:
        self._key = key
        self.key_type = key.type
        self._visible = [n for n in range(len(schema)) if not key.hidden or n not in key.columns]
        self.schema = pa.schema([schema.field(n) for n in self._visible])
        self.row = row_class(self.schema)
        is_plain = len(key.columns) == 1 and not key.hidden and key.type.is_plain
        self.plain_key = key.columns[0] if is_plain else None
        """The column whose values are the kept keys as they are, if there is one."""

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

    def keys_and_rows(self, batch: pa.RecordBatch) -> tuple[list[Any], Iterable[Any]]:
        """The keys and the rows, with no column turned into values twice."""
        columns = [values_of(batch.column(number)) for number in self._visible]
        keys = columns[self.plain_key] if self.plain_key is not None else self.keys(batch)
        return keys, columns_to_rows(columns, batch.num_rows, self.row)


class KeyedFunction(Operator):
    """What keyed operators share: a function with states and a context with a key."""

    def __init__(self, function: Any, output_schema: pa.Schema) -> None:
        self._function = function
        self._schema = output_schema
        self._taking = Taking.of(output_schema)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._ctx = context.row_context
        self._keyed = context.keyed
        self._aside = Aside(self, self._function)
        open_function(self._function, context)

    def prefetch(self, keys: Sequence[Any]) -> None:
        """Load the state of a slice's keys."""
        if self._keyed is not None:
            self._keyed.prefetch(keys)

    def ahead_of(self, reader: KeyReader | None, batch: pa.RecordBatch) -> Work | None:
        """What is to be read before the rows of a batch are processed."""
        if self._keyed is None or reader is None:
            return None
        return self._keyed.read_ahead(reader.keys(batch))

    def called(self, method: Any, keys: Iterable[Any], rows: Iterable[Any]) -> list[Any]:
        """What a method of the function gives for rows; it may emit into side outputs."""
        with self._aside:
            return run_rows(method, self._ctx, keys, self.pieces(rows), self._taking)

    def emit_rows(self, rows: list[Any], function: Any) -> None:
        """Emit what the function gave, and what it has put into its side outputs."""
        try:
            where = f"operator {self.context.uid!r}"
            emitted = list(rows_to_batches(rows, self._schema, where)) if rows else []
        except BaseException as error:
            raise user_error(self.context, error, function=function, may_list=True) from error
        for batch in emitted:
            self.out(batch)
        self._aside.emit(function)

    def before_marker(self, epoch: Epoch) -> None:
        cut_function(self._function, epoch, self.context)

    def on_complete(self, epoch: Epoch) -> None:
        notify_function(self._function, epoch, self.context)

    def on_abort(self, epoch: Epoch) -> None:
        abort_function(self._function, epoch, self.context)

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

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        return self.ahead_of(self._reader, batch)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            keys, rows = self._reader.keys_and_rows(batch)
            self.prefetch(keys)
            out = self.called(self._function.process, keys, rows)
        except BaseException as error:
            raise user_error(self.context, error) from error
        finally:
            self._ctx.leave()
        self.emit_rows(out, self._function.process)


def run_rows(
    method: Any, ctx: ProcessContext, keys: Iterable[Any], rows: Iterable[Any], taking: Taking
) -> list[Any]:
    """Call a method for each row with its key in place, and gather what it gives.

    There may be fewer rows than keys: their operator is to stop early.
    """
    out: list[Any] = []
    append, as_is, take = out.append, taking.as_is, taking.take
    if inspect.isgeneratorfunction(method):
        for key, row in zip(keys, rows, strict=False):
            ctx.key = ctx.current_key = key
            for given in method(row, ctx):
                append(given if given.__class__ is as_is else take(given))
        ctx.check_key(method)
        return out
    for key, row in zip(keys, rows, strict=False):
        ctx.key = ctx.current_key = key
        result = method(row, ctx)
        if result.__class__ is as_is:
            append(result)
        elif result is not None:
            collect(result, out, taking)
    ctx.check_key(method)
    return out


@dataclass(frozen=True, slots=True)
class GroupedBatch:
    """A batch ordered so that the rows of a key are adjacent, in the order they came.

    ``keys[i]`` owns the rows from ``offsets[i]`` to ``offsets[i + 1]`` of ``batch``; ``key_array``
    holds the same keys as a column.
    """

    keys: Keys
    batch: pa.RecordBatch
    offsets: np.ndarray
    key_array: pa.Array

    @property
    def counts(self) -> np.ndarray:
        """How many rows each key has."""
        return np.diff(self.offsets)

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

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        return self.ahead_of(self._reader, batch)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        self._ctx.leave()
        self.call(self._function.process, self._grouped(batch))

    def call(self, method: Any, *arguments: Any, hook: str = "") -> None:
        """Call a method with columns, and emit what it gives: a batch, rows or nothing."""
        try:
            out: list[Any] = []
            with self._aside:
                result = method(*arguments, self._ctx)
                if not isinstance(result, pa.RecordBatch):
                    collect(result, out, self._taking)
            if isinstance(result, pa.RecordBatch):
                result = fitted(result, self._schema, self.context.uid)
        except BaseException as error:
            raise user_error(self.context, error, hook, method) from error
        if isinstance(result, pa.RecordBatch):
            self.out(result)
        self.emit_rows(out, method)

    def _grouped(self, batch: pa.RecordBatch) -> GroupedBatch:
        column = self._reader.column(batch)
        order, offsets = grouped(codes_of(column))
        firsts = column.take(pa.array(order[offsets[:-1]]))
        ordered = self._reader.visible(batch).take(pa.array(order))
        return GroupedBatch(
            Keys(self._reader.key_type.from_array(firsts)), ordered, offsets, firsts
        )
