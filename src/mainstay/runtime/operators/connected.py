"""Connected inputs: one function with a method for each of several inputs.

Those that are keyed share the state of a key. Those that are broadcast have no key, and are the
only ones whose rows may change broadcast state: every subtask sees them, and does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstay.runtime.operators.base import OperatorContext, user_error
from mainstay.runtime.operators.keyed import KeyedFunction, KeyReader
from mainstay.runtime.operators.rows import ROW_FUNCTION_ROWS
from mainstay.runtime.spec import KeySpec
from mainstay.schema import batch_to_rows, row_class
from mainstay.state.backends.contract import Work
from mainstay.state.keyed import NO_KEY


@dataclass(frozen=True, slots=True)
class ConnectedInput:
    """One of the inputs of a function. Its number among them is the port of its rows."""

    name: str
    key: KeySpec | None
    schema: pa.Schema
    is_broadcast: bool = False

    @property
    def method(self) -> str:
        """What is called for each of its rows."""
        return f"process_{self.name}"


class ConnectedRows(KeyedFunction):
    """A ``CoKeyedProcess``, ``CoProcess`` or ``MultiProcess`` function."""

    max_slice_rows = ROW_FUNCTION_ROWS

    def __init__(
        self, function: Any, inputs: Sequence[ConnectedInput], output_schema: pa.Schema
    ) -> None:
        super().__init__(function, output_schema)
        self._inputs = tuple(inputs)
        self._readers = [
            None if each.key is None else KeyReader(each.key, each.schema) for each in inputs
        ]
        self._rows = [row_class(each.schema) for each in inputs]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._broadcast = tuple(context.broadcast.values())

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        return self.ahead_of(self._readers[port], batch)

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        given = self._inputs[port]
        method = getattr(self._function, given.method)
        try:
            self._let_change(given.is_broadcast)
            out = self.called(method, *self._keys_and_rows(batch, port))
        except BaseException as error:
            raise user_error(self.context, error) from error
        finally:
            self._let_change(False)
            self._ctx.leave()
        self.emit_rows(out, method)

    def _keys_and_rows(
        self, batch: pa.RecordBatch, port: int
    ) -> tuple[Iterable[Any], Iterable[Any]]:
        reader = self._readers[port]
        if reader is None:
            return [NO_KEY] * batch.num_rows, batch_to_rows(batch, self._rows[port])
        keys, rows = reader.keys_and_rows(batch)
        self.prefetch(keys)
        return keys, rows

    def _let_change(self, may_change: bool) -> None:
        """Whether broadcast state may be changed until the next call."""
        for state in self._broadcast:
            state.may_change = may_change
