"""What an author's function emits into its side outputs, while it is called.

Rows are gathered during a call and emitted behind those of the main output, before the operator
does anything else: no marker, watermark or end of input comes between them and the rows that they
were emitted for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, SchemaError
from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.fitting import of_schema
from mainstay.runtime.operators.taken import Taking
from mainstay.runtime.side_output import sides_of
from mainstay.runtime.spec import SideSpec
from mainstay.schema import format_schema, rows_to_batches


class Aside:
    """The side outputs of one function. They are open within ``with``, and ``emit`` follows it."""

    def __init__(self, operator: Operator, function: Any) -> None:
        context = operator.context
        self._caller = context.caller
        self.calling: int | None = None
        """The thread that is in a call of the function."""
        self._handles = [
            (SideHandle(self, context, side), operator.sides[side.name])
            for side in sides_of(function)
        ]
        # Not by assignment, which a declaration refuses.
        vars(function).update({handle.name: handle for handle, _ in self._handles})

    def __enter__(self) -> None:
        self.calling = self._caller()

    def __exit__(self, *error: object) -> None:
        self.calling = None

    @property
    def is_open(self) -> bool:
        """Whether a call of the function is under way, and this is the thread that it is in."""
        return self.calling == self._caller()

    def emit(self, function: Any) -> None:
        """Emit what was gathered; ``function`` is the author's, for errors of its rows."""
        for handle, out in self._handles:
            for batch in handle.taken(function):
                out(batch)


class SideHandle:
    """One side output of a function, in the place of its declaration."""

    __slots__ = ("_aside", "_batches", "_context", "_rows", "_schema", "_taking", "name")

    def __init__(self, aside: Aside, context: OperatorContext, side: SideSpec) -> None:
        self._aside = aside
        self._context = context
        self._schema = side.schema
        self._taking = Taking.of(side.schema)
        self.name = side.name
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []

    def __repr__(self) -> str:
        return f"SideOutput({format_schema(self._schema)!r})"

    def emit(self, row: Any) -> None:
        self._check_open()
        self._rows.append(self._taking.take(row))

    def emit_many(self, rows: Iterable[Any]) -> None:
        self._check_open()
        self._rows += [self._taking.take(row) for row in rows]

    def emit_batch(self, batch: pa.RecordBatch) -> None:
        self._check_open()
        # What was emitted row by row before it stays before it.
        self._batches += self._converted()
        if not isinstance(batch, pa.RecordBatch):
            kind = type(batch).__name__
            raise SchemaError(f"{self._where} needs a pyarrow.RecordBatch, not {kind}.")
        self._batches.append(of_schema(batch, self._schema, self._where))

    def taken(self, function: Any) -> list[pa.RecordBatch]:
        """What was emitted since it was last asked."""
        if not self._rows and not self._batches:
            return []
        try:
            taken = self._batches + self._converted()
        except BaseException as error:
            raise user_error(self._context, error, function=function) from error
        self._batches = []
        return [batch for batch in taken if batch.num_rows]

    @property
    def _where(self) -> str:
        return f"operator {self._context.uid!r}, side output {self.name!r}"

    def _converted(self) -> list[pa.RecordBatch]:
        rows, self._rows = self._rows, []
        return list(rows_to_batches(rows, self._schema, self._where)) if rows else []

    def _check_open(self) -> None:
        if not self._aside.is_open:
            raise MainstayError(
                f"{self._where}: rows can be emitted only while process() is called, and by the "
                "thread that calls it. They belong to the epoch of the row that they are emitted "
                "for: keep what you have in state, or in a field, and emit it there."
            )
