"""Choosers: which subtask a row goes to, where the job's author says it.

A chooser gives a whole number for each row; modulo the number of subtasks it is the one that gets
the row. It must give the same number for the same row: after a restore in-flight rows are asked
about again, by every subtask, and each takes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import MainstayError
from mainstay.schema import batch_to_rows, row_class
from mainstay.schema.evaluation import evaluated
from mainstay.schema.transpose import shown

Subtasks = npt.NDArray[np.int64]


class Chooser(Protocol):
    """Says for each row of a batch which of ``parallelism`` subtasks gets it."""

    @property
    def text(self) -> str:
        """What it goes by, for people."""

    def subtasks(self, batch: pa.RecordBatch, parallelism: int) -> Subtasks: ...


@dataclass(frozen=True, slots=True, eq=False)
class ColumnChooser:
    """By a column of whole numbers."""

    number: int
    text: str

    def subtasks(self, batch: pa.RecordBatch, parallelism: int) -> Subtasks:
        return _modulo(batch.column(self.number), parallelism, self.text)


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionChooser:
    """By an expression of the columns that gives whole numbers."""

    expression: pc.Expression
    text: str

    def subtasks(self, batch: pa.RecordBatch, parallelism: int) -> Subtasks:
        numbers = evaluated(self.expression, pa.Table.from_batches([batch]))
        return _modulo(numbers, parallelism, self.text)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionChooser:
    """By a function of the row."""

    function: Callable[[Any], Any]
    schema: pa.Schema
    text: str = "function"

    def subtasks(self, batch: pa.RecordBatch, parallelism: int) -> Subtasks:
        rows, function = batch_to_rows(batch, row_class(self.schema)), self.function
        numbers = [_whole(function(row)) % parallelism for row in rows]
        return np.array(numbers, np.int64)


def _modulo(numbers: pa.Array, parallelism: int, text: str) -> Subtasks:
    if numbers.null_count:
        raise MainstayError(
            f"partition_by({text}): a row has null there, which says no subtask. Leave such rows "
            "out with filter(...), or use a function that gives a number for them."
        )
    found: Subtasks = numbers.to_numpy(zero_copy_only=False).astype(np.int64) % parallelism
    return found


def _whole(number: Any) -> int:
    try:
        return index(number)
    except TypeError:
        raise MainstayError(
            f"the function of partition_by gave {shown(number)} ({type(number).__name__}) for a "
            "row. It must give a whole number; its remainder by the number of subtasks says which "
            "of them gets the row."
        ) from None
