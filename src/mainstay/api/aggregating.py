"""The operators of an aggregation: a combiner beside each sender, the fold at the key's owner.

Where one subtask sends to one subtask there is no shuffle to save, and rows are folded as they are.
A combiner has no state, so the same job restored at another parallelism may have one or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from mainstay.api.graph import GraphBuilder
from mainstay.plan.logical import Input, LogicalOperator
from mainstay.plan.wiring import COMBINE
from mainstay.runtime.operators.aggregate import OTHER_FORM, AggregateByKey, Combine
from mainstay.runtime.operators.rows import Make
from mainstay.runtime.spec import Forward, HashByKey, InputSpec, KeySpec
from mainstay.state.aggregates import Aggregation


@dataclass(frozen=True, slots=True)
class Aggregating:
    """An aggregation of a keyed stream: its key, what it carries, and what is emitted.

    ``order`` picks what is emitted from the columns of the key followed by the results.
    """

    key: KeySpec
    carried: pa.Schema
    aggregation: Aggregation
    schema: pa.Schema
    order: tuple[int, ...]

    def add(
        self,
        builder: GraphBuilder,
        origins: tuple[int, ...],
        name: str,
        uid: str | None,
        parallelism: int | None,
        where: str,
    ) -> LogicalOperator:
        """Add the operators that read the rows of ``origins``."""
        receivers = builder.parallelism_of(parallelism, where)
        senders = {builder.operators[origin].parallelism for origin in origins}
        combined = receivers > 1 or senders != {1}
        key, other_key = self.key, self._partial_key
        if combined:
            key, other_key = other_key, key
        other_schema = self.carried if combined else self._partial_schema
        arguments = (key, self.aggregation, self.schema, self.order, combined, other_key)
        return builder.add(
            name,
            Make(AggregateByKey, arguments),
            self.schema,
            uid=uid,
            inputs=tuple(
                Input(self._combiner(builder, origin) if combined else origin, HashByKey(key))
                for origin in origins
            ),
            parallelism=parallelism,
            states=(self.aggregation.state(),),
            key=key,
            # A snapshot may hold what was sent where there was a combiner, or was none.
            other_forms=(InputSpec("", OTHER_FORM, HashByKey(other_key), other_schema),),
        )

    @property
    def _partial_key(self) -> KeySpec:
        """The key among partial results, where its columns come first."""
        columns = tuple(range(len(self.key.columns)))
        return replace(self.key, columns=columns)

    @property
    def _partial_schema(self) -> pa.Schema:
        """What a combiner emits, which can be told from the rows of the stream."""
        keys = [self.carried.field(number) for number in self.key.columns]
        types = [accumulator.type for accumulator in self.aggregation.accumulators]
        for mark in ("", "~"):
            partials = [pa.field(f"{n}{mark}", each) for n, each in enumerate(types)]
            schema = pa.schema([*keys, *partials])
            if schema.names != self.carried.names:
                break
        return schema

    def _combiner(self, builder: GraphBuilder, origin: int) -> int:
        schema = self._partial_schema
        added = builder.add(
            COMBINE,
            Make(Combine, (self.key, self.aggregation, schema)),
            schema,
            uid=None,
            inputs=(Input(origin, Forward()),),
            # It stays in the chain of what it reads, whose parallelism need not be the job's.
            beside=origin,
        )
        return added.id
