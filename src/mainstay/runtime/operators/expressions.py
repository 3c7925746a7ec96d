"""Arrow expressions over batches: as the key of each row, or as columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import SchemaError
from mainstay.runtime.operators.base import Operator, user_error
from mainstay.schema.arrays import check_not_null
from mainstay.schema.evaluation import evaluated, evaluated_all


class AddKeyExpression(Operator):
    """Appends the key that an expression gives, as a column that rows do not show."""

    def __init__(self, expression: pc.Expression, key: pa.Field) -> None:
        self._expression = expression
        self._key = key

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        try:
            keys: Any = evaluated(self._expression, pa.Table.from_batches([batch]))
            check_not_null(keys, self._key, f"operator {self.context.uid!r} (the key)")
        except (pa.ArrowException, SchemaError) as error:
            raise user_error(self.context, error) from error
        self.out(
            pa.RecordBatch.from_arrays(
                [*batch.columns, keys], schema=batch.schema.append(self._key)
            )
        )


class SelectColumns(Operator):
    """Columns of the batch, by number, and what expressions of them give, in a schema."""

    def __init__(self, columns: tuple[int | pc.Expression, ...], schema: pa.Schema) -> None:
        self._columns = columns
        self._expressions = [each for each in columns if not isinstance(each, int)]
        self._schema = schema

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        made = iter(self._evaluated(batch))
        arrays = [
            batch.column(each) if isinstance(each, int) else next(made) for each in self._columns
        ]
        self.out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _evaluated(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if not self._expressions:
            return []
        try:
            return evaluated_all(self._expressions, pa.Table.from_batches([batch]))
        except pa.ArrowException as error:
            raise user_error(self.context, error) from error
