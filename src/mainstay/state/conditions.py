"""Conditions: which rows of a batch count for an aggregate (``where=``)."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.schema.evaluation import evaluated


class Expression(Protocol):
    """An expression of columns as a job's author writes it, which knows no schema yet."""

    def bound(self, schema: pa.Schema, where: str) -> tuple[Any, pa.DataType]:
        """Arrow's expression for rows of a schema, and the type of what it gives."""


class Condition:
    """An expression of Arrow over the first columns of a batch, those of the stream.

    Several accumulators share one, and ask for the rows of the same batch one after the other.
    """

    __slots__ = ("_last", "columns", "expression")

    def __init__(self, expression: pc.Expression, columns: int) -> None:
        self.expression = expression
        self.columns = columns
        self._last: tuple[Any, pa.Array] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Condition, (self.expression, self.columns)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Condition)
            and self.columns == other.columns
            and bool(self.expression.equals(other.expression))
        )

    def __hash__(self) -> int:
        return hash((str(self.expression), self.columns))

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """True for each row that counts; what is null does not."""
        last = self._last
        if last is not None and last[0]() is batch:
            return last[1]
        # A key that a function made comes last, and may have the name of a column.
        columns = batch.select(range(self.columns))
        found = evaluated(self.expression, pa.Table.from_batches([columns]))
        if found.null_count:
            found = found.fill_null(False)
        # In one assignment, because threads of one process may share a condition.
        self._last = (weakref.ref(batch), found)
        return found
