"""The builder behind ``Environment`` and ``Stream``: adds operators and gives them uids."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.runtime.connector import Source
from mainstay.runtime.spec import KeySpec, OperatorFactory
from mainstay.state.declaration import StateInfo


class GraphBuilder:
    """Collects the operators of a job in the order they are written."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.operators: list[LogicalOperator] = []
        self._names: Counter[str] = Counter()

    def add(
        self,
        name: str,
        factory: OperatorFactory,
        schema: pa.Schema | None,
        *,
        uid: str | None,
        inputs: tuple[Input, ...] = (),
        parallelism: int | None = None,
        states: tuple[StateInfo, ...] = (),
        key: KeySpec | None = None,
        source: Source | None = None,
        is_sink: bool = False,
    ) -> LogicalOperator:
        if uid is not None and (not isinstance(uid, str) or not uid.strip()):
            raise GraphError(f"uid={uid!r} of operator {name} must be a text that is not empty.")
        self._names[name] += 1
        operator = LogicalOperator(
            id=len(self.operators),
            uid=uid or f"{name}-{self._names[name]}",
            has_own_uid=uid is not None,
            name=name,
            factory=factory,
            schema=schema,
            parallelism=self._parallelism(parallelism, inputs),
            inputs=inputs,
            states=states,
            key=key,
            source=source,
            is_sink=is_sink,
        )
        self.operators.append(operator)
        return operator

    def _parallelism(self, given: int | None, inputs: tuple[Input, ...]) -> int:
        if given is not None:
            return given
        return self.parallelism

    def graph(self, max_parallelism: int, mode: str) -> LogicalGraph:
        return LogicalGraph(tuple(self.operators), max_parallelism, mode)


def column_number(schema: pa.Schema, column: Any, where: str) -> int:
    """The place of a column, or an error that names the ones there are."""
    number = schema.get_field_index(column) if isinstance(column, str) else -1
    if number < 0:
        raise GraphError(
            f"{where}: there is no column {column!r}; the stream has {', '.join(schema.names)}."
        )
    return int(number)
