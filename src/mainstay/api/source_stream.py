"""The stream of a source, and the records that it could not read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.graph import GraphBuilder
from mainstay.api.stream import Stream
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.runtime.spec import Forward


@dataclass(frozen=True, slots=True)
class GoodRows:
    """The rows that were read, without the column that tells of the others."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        bad = batch.column(self.column)
        if bad.null_count < len(bad):
            batch = batch.filter(pc.is_null(bad))
        return batch.drop_columns([self.column])


@dataclass(frozen=True, slots=True)
class BadRows:
    """What is known of the records that could not be read, a row for each."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        told = batch.column(self.column)
        found = told.filter(pc.is_valid(told))
        return pa.RecordBatch.from_struct_array(found)


class SourceStream(Stream):
    """The stream of a source that puts malformed records aside; ``malformed`` is theirs."""

    def __init__(self, builder: GraphBuilder, operator: LogicalOperator, column: str) -> None:
        assert operator.schema is not None
        self._operator = operator
        self._column = column
        self._malformed: Stream | None = None
        number = operator.schema.get_field_index(column)
        good = operator.schema.remove(number)
        added = _beside(builder, operator, "good", nodes.MapBatches(GoodRows(column)), good)
        super().__init__(builder, good, (Input(added.id, Forward()),))
        builder.to_check.append(self._check_read)

    @property
    def malformed(self) -> Stream:
        """Records that do not fit the schema: where each was, what is wrong with it, its bytes."""
        if self._malformed is None:
            assert self._operator.schema is not None
            fields = self._operator.schema.field(self._column).type
            schema = pa.schema([fields.field(n) for n in range(fields.num_fields)])
            node = nodes.MapBatches(BadRows(self._column))
            added = _beside(self._builder, self._operator, "malformed", node, schema)
            self._malformed = Stream(self._builder, schema, (Input(added.id, Forward()),))
        return self._malformed

    def _check_read(self) -> None:
        if self._malformed is None:
            raise GraphError(
                f"source {self._operator.uid!r} puts malformed records aside (malformed='side'), "
                "and nobody reads them. End them with stream.malformed.sink(...), or leave them "
                "out with malformed='skip'."
            )


def _beside(
    builder: GraphBuilder, source: LogicalOperator, name: str, node: nodes.Node, schema: pa.Schema
) -> LogicalOperator:
    return builder.add(
        name,
        node,
        schema,
        {"uid": f"{source.uid}-{name}"},
        inputs=(Input(source.id, Forward()),),
        beside=source.id,
    )
