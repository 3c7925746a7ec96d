"""Arrow expressions over batches: as a column of their own, and as the key of each row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from mainstay.errors import SchemaError
from mainstay.runtime.operators.base import Operator, user_error
from mainstay.schema.arrays import check_not_null


def evaluated(expression: pc.Expression, table: pa.Table) -> pa.Array:
    """What an expression gives for each row."""
    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
    ]
    # Without threads the rows keep their order.
    found = acero.Declaration.from_sequence(plan).to_table(use_threads=False)
    return found.column(0).combine_chunks()


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
