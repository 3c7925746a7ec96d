"""Batches that an author's function gives, in the schema that was declared for them."""

from __future__ import annotations

import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.schema import format_schema


def of_schema(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """A batch of exactly the declared schema, or an error that names both."""
    if batch.schema.names != schema.names:
        raise _misfit(batch, schema, where)
    for column, field in zip(batch.columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise SchemaError(f"{where}: column {field.name!r} is NOT NULL but has nulls.")
    if batch.schema.types == schema.types:
        return batch
    try:
        columns = [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit(batch, schema, where) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _misfit(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> SchemaError:
    return SchemaError(
        f"{where}: a batch has the columns {batch.schema.names} with types "
        f"{[str(t) for t in batch.schema.types]}, but {format_schema(schema)!r} is declared."
    )
