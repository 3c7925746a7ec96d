"""Evaluating Arrow expressions over the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def evaluated(expression: pc.Expression, table: pa.Table) -> pa.Array:
    """What an expression gives for each row."""
    return evaluated_all([expression], table)[0]


def evaluated_all(expressions: Sequence[pc.Expression], table: pa.Table) -> list[pa.Array]:
    """What some expressions give for each row."""
    # Rows that came over the network lie where the message has them. Arrow would warn of each
    # batch; it reads them all the same.
    os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")
    # It brings Arrow's datasets and pandas along, which most jobs never need.
    from pyarrow import acero

    names = [str(number) for number in range(len(expressions))]
    plan = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions(list(expressions), names)),
    ]
    # Without threads the rows keep their order.
    found = acero.Declaration.from_sequence(plan).to_table(use_threads=False)
    return [column.combine_chunks() for column in found.columns]
