"""Operators without keys: functions of a row or of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.aside import Aside
from mainstay.runtime.operators.base import (
    Operator,
    OperatorContext,
    bind_states,
    user_error,
)
from mainstay.runtime.operators.fitting import of_schema
from mainstay.runtime.operators.taken import Taking
from mainstay.schema import batch_to_rows, row_class, rows_to_batch, rows_to_batches

ROW_FUNCTION_ROWS = 2048


class RowOperator(Operator):
    """Turns batches into rows, calls a function for each, and gathers what it gives."""

    max_slice_rows = ROW_FUNCTION_ROWS
    may_list = True
    """Whether a list that the function returns is several rows."""

    def __init__(self, function: Any, input_schema: pa.Schema, output_schema: pa.Schema) -> None:
        self._function = function
        self._row = row_class(input_schema)
        self._schema = output_schema
        self._taking = Taking.of(output_schema)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            out = self.results(self.pieces(batch_to_rows(batch, self._row)))
            if not out:
                return
            where = f"operator {self.context.uid!r}"
            emitted = list(rows_to_batches(out, self._schema, where))
        except BaseException as error:
            raise user_error(
                self.context, error, function=self.called, may_list=self.may_list
            ) from error
        for each in emitted:
            self.out(each)

    @property
    def called(self) -> Any:
        """What of the author's is called for a row."""
        return self._function

    def results(self, rows: Iterable[Any]) -> list[Any]:
        raise NotImplementedError


class MapRows(RowOperator):
    """One row out for each row in."""

    may_list = False

    def results(self, rows: Iterable[Any]) -> list[Any]:
        function, as_is, take = self._function, self._taking.as_is, self._taking.take
        # Not map(), which takes a StopIteration of the function for the end of the rows.
        return [made if (made := function(row)).__class__ is as_is else take(made) for row in rows]


class FlatMapRows(RowOperator):
    """Any number of rows out for each row in."""

    def results(self, rows: Iterable[Any]) -> list[Any]:
        function = self._function
        out: list[Any] = []
        for row in rows:
            collect(function(row), out, self._taking)
        return out


class ProcessRows(RowOperator):
    """A ``Process`` function: rows out, operator state, notifications."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._aside = Aside(self, self._function)
        open_function(self._function, context)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        super().process(batch, port)
        self._aside.emit(self.called)

    @property
    def called(self) -> Any:
        return self._function.process

    def results(self, rows: Iterable[Any]) -> list[Any]:
        out: list[Any] = []
        process, ctx = self._function.process, self.context.row_context
        with self._aside:
            for row in rows:
                collect(process(row, ctx), out, self._taking)
        return out

    def before_marker(self, epoch: Epoch) -> None:
        cut_function(self._function, epoch, self.context)

    def on_complete(self, epoch: Epoch) -> None:
        notify_function(self._function, epoch, self.context)

    def on_abort(self, epoch: Epoch) -> None:
        abort_function(self._function, epoch, self.context)

    def close(self) -> None:
        close_function(self._function, self.context)


class FilterRows(Operator):
    """Keeps the rows for which a function of the row is true."""

    max_slice_rows = ROW_FUNCTION_ROWS

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema) -> None:
        self._function = function
        self._row = row_class(schema)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            rows = self.pieces(batch_to_rows(batch, self._row))
            keep = [bool(self._function(row)) for row in rows]
        except BaseException as error:
            raise user_error(self.context, error) from error
        kept = batch.slice(0, len(keep)).filter(pa.array(keep, pa.bool_()))
        if kept.num_rows:
            self.out(kept)


class MapBatches(Operator):
    """A function from a batch to a batch, or to None."""

    def __init__(self, function: Callable[[pa.RecordBatch], Any], schema: pa.Schema) -> None:
        self._function = function
        self._schema = schema

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            result = self._function(batch)
            emitted = None if result is None else fitted(result, self._schema, self.context.uid)
        except BaseException as error:
            raise user_error(self.context, error, function=self._function) from error
        if emitted is not None and emitted.num_rows:
            self.out(emitted)


class AddKey(Operator):
    """Appends the key that a function of the row gives, as a column that rows do not show."""

    max_slice_rows = ROW_FUNCTION_ROWS

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema, key: pa.Field) -> None:
        self._function = function
        self._row = row_class(schema)
        self._key = key

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            rows = self.pieces(batch_to_rows(batch, self._row))
            keys = [(self._function(row),) for row in rows]
            where = f"operator {self.context.uid!r} (the key function)"
            column = rows_to_batch(keys, pa.schema([self._key]), where).column(0)
        except BaseException as error:
            raise user_error(self.context, error, function=self._function) from error
        batch = batch.slice(0, len(keys))
        self.out(
            pa.RecordBatch.from_arrays(
                [*batch.columns, column], schema=batch.schema.append(self._key)
            )
        )


def collect(result: Any, out: list[Any], taking: Taking) -> None:
    """Add what a function returned: a row, several rows, or nothing.

    At once, because an iterator may look at the key of the current row.
    """
    kind, as_is, take = type(result), taking.as_is, taking.take
    if kind is as_is:
        out.append(result)
    elif kind is list or kind is GeneratorType or isinstance(result, Iterator | list):
        append = out.append
        for row in result:
            append(row if row.__class__ is as_is else take(row))
    elif result is not None:
        out.append(take(result))


def fitted(result: Any, schema: pa.Schema, uid: str) -> pa.RecordBatch:
    """A batch of exactly the declared schema, or an error that names both."""
    if not isinstance(result, pa.RecordBatch):
        raise SchemaError(
            f"operator {uid!r} must return a pyarrow.RecordBatch or None, "
            f"not {type(result).__name__}."
        )
    return of_schema(result, schema, f"operator {uid!r}")


def open_function(function: Any, context: OperatorContext, *, binds: bool = True) -> None:
    """Bind the states of a user's function, unless they are already, and call its ``open``."""
    if binds:
        bind_states(function, context)
    _call(context, getattr(function, "open", None), context.row_context)


def cut_function(function: Any, epoch: Epoch, context: OperatorContext) -> None:
    _call(context, getattr(function, "on_snapshot", None), epoch)


def notify_function(function: Any, epoch: Epoch, context: OperatorContext) -> None:
    _call(context, getattr(function, "on_snapshot_complete", None), epoch)


def abort_function(function: Any, epoch: Epoch, context: OperatorContext) -> None:
    _call(context, getattr(function, "on_snapshot_aborted", None), epoch)


def close_function(function: Any, context: OperatorContext) -> None:
    _call(context, getattr(function, "close", None))


def _call(context: OperatorContext, method: Callable[..., Any] | None, *arguments: Any) -> None:
    # A state or a timer may have the name of a hook, which its function does without then.
    if not callable(method):
        return
    try:
        method(*arguments)
    except BaseException as error:
        raise user_error(context, error, getattr(method, "__name__", "")) from error
