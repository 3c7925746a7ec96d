"""The gap of a row: one for all, or what an expression or a function of the row gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import GraphError, SchemaError
from mainstay.quantities import seconds
from mainstay.runtime.operators.base import OperatorContext, user_error
from mainstay.runtime.windows import Times
from mainstay.schema import batch_to_rows, row_class
from mainstay.schema.evaluation import evaluated
from mainstay.schema.transpose import shown

_MICROSECONDS = 1_000_000
_LONGEST_S = 1e12
"""Some thirty thousand years, which no sum of times overflows with."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """How long the gap of a row is, in microseconds: ``fixed``, or by one of the others."""

    fixed: int | None
    expression: pc.Expression | None = None
    function: Callable[[Any], Any] | None = None

    def of(self, batch: pa.RecordBatch, context: OperatorContext) -> int | Times:
        """The gaps of rows as their author sees them."""
        if self.fixed is not None:
            return self.fixed
        try:
            if self.function is not None:
                rows = batch_to_rows(batch, row_class(batch.schema))
                given = [self.function(row) for row in rows]
            else:
                column = evaluated(self.expression, pa.Table.from_batches([batch]))
                if _is_number(column.type) and not column.null_count:
                    return _checked(column.cast(pa.float64()).to_numpy())
                given = column.to_pylist()
            lengths = {each: _seconds(each) for each in set(given)}
            return _checked(np.array([lengths[each] for each in given]))
        except SchemaError as error:
            named = SchemaError(f"operator {context.uid!r}: {error}")
            raise user_error(context, named, function=self.function) from None
        except BaseException as error:
            raise user_error(context, error, function=self.function) from error


def _is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow))


def _seconds(given: Any) -> float:
    if isinstance(given, timedelta):
        return given.total_seconds()
    try:
        return seconds(given, "gap")
    except GraphError:
        raise _refused(given) from None


def _checked(lengths_s: Any) -> Times:
    """Microseconds of seconds."""
    is_fit = (lengths_s >= 1 / _MICROSECONDS) & (lengths_s <= _LONGEST_S)
    if not is_fit.all():
        raise _refused(float(lengths_s[~is_fit][0]))
    found: Times = np.round(lengths_s * _MICROSECONDS).astype(np.int64)
    return found


def _refused(given: Any) -> SchemaError:
    return SchemaError(
        f"the gap of a session is {shown(given)}, and must be a duration of at least a "
        'microsecond: a number of seconds, a text as "5min", or a timedelta.'
    )
