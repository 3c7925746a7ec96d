"""Filters over whole batches: an Arrow expression, or a function that gives a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import SchemaError
from mainstay.runtime.operators.base import Operator, user_error


class FilterExpression(Operator):
    """Keeps the rows for which an expression of their columns is true; null is not."""

    def __init__(self, expression: pc.Expression) -> None:
        self._expression = expression

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            kept = batch.filter(self._expression)
        except pa.ArrowException as error:
            raise user_error(self.context, error) from error
        if kept.num_rows:
            self.out(kept)


class FilterBatches(Operator):
    """Keeps the rows for which the mask that a function gives is true; null is not."""

    def __init__(self, function: Callable[[pa.RecordBatch], Any]) -> None:
        self._function = function

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            mask = fitted_mask(self._function(batch), batch.num_rows, self.context.uid)
        except BaseException as error:
            raise user_error(self.context, error) from error
        kept = batch.filter(mask)
        if kept.num_rows:
            self.out(kept)


def fitted_mask(given: Any, rows: int, uid: str) -> pa.Array:
    """A boolean for each row, or an error that says what was given instead."""
    mask = given
    if isinstance(mask, np.ndarray):
        mask = pa.array(mask) if mask.ndim == 1 and mask.dtype.kind in "bO" else None
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    if not isinstance(mask, pa.Array) or not pa.types.is_boolean(mask.type):
        kind = getattr(given, "type", getattr(given, "dtype", None))
        of = "" if kind is None else f" of {kind}"
        raise SchemaError(
            f"operator {uid!r}: the function of filter_batches() must return a boolean array of "
            f"pyarrow or numpy, not {type(given).__name__}{of}. Compare its columns, as in "
            'pc.greater(batch["amount"], 5).'
        )
    if len(mask) != rows:
        raise SchemaError(
            f"operator {uid!r}: the function of filter_batches() returned {len(mask)} values for a "
            f"batch of {rows} rows; it must return one for each row."
        )
    return mask
