"""Nodes: what each operator of a job is to do, in the words of its author.

A node names no class of the runtime. It becomes an operator when the parallelism is known
(:mod:`mainstay.plan.lower`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.runtime import connector
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import WatermarkSpec
from mainstay.state.aggregates import Aggregation


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a source, with event time where ``time`` says how it is read from them."""

    source: connector.Source
    time: WatermarkSpec | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """Rows into a sink."""

    sink: connector.Sink


@dataclass(frozen=True, slots=True)
class Map:
    """One row out for each row in."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Any number of rows out for each row in."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a function of the row is true."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """The rows for which an expression of the columns is true."""

    expression: pc.Expression


@dataclass(frozen=True, slots=True)
class FilterBatches:
    """The rows for which a function of the batch gives true."""

    function: Callable[[pa.RecordBatch], Any]


@dataclass(frozen=True, slots=True)
class MapBatches:
    """A function from batch to batch."""

    function: Callable[[pa.RecordBatch], Any]


@dataclass(frozen=True, slots=True)
class Process:
    """A ``Process`` function."""

    function: Any


@dataclass(frozen=True, slots=True)
class KeyByFunction:
    """A key that a function of the row gives, as a column more."""

    function: Callable[[Any], Any]
    field: pa.Field


@dataclass(frozen=True, slots=True)
class KeyByExpression:
    """A key that an expression of the columns gives, as a column more."""

    expression: pc.Expression
    field: pa.Field


@dataclass(frozen=True, slots=True)
class Keyed:
    """A ``KeyedProcess`` function."""

    function: Any
    key: KeySpec


@dataclass(frozen=True, slots=True)
class KeyedBatches:
    """A ``KeyedBatchProcess`` function."""

    function: Any
    key: KeySpec


@dataclass(frozen=True, slots=True)
class CoKeyed:
    """A ``CoKeyedProcess`` function: the keys and the schemas of its two inputs."""

    function: Any
    keys: tuple[KeySpec | None, KeySpec | None]
    schemas: tuple[pa.Schema, pa.Schema]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Running aggregates of each key.

    ``key`` and ``carried`` are those of the stream. ``order`` picks what is emitted from the
    columns of the key followed by the results. ``is_combined`` says that what arrives are partial
    results; the plan decides that.
    """

    aggregation: Aggregation
    key: KeySpec
    carried: pa.Schema
    order: tuple[int, ...]
    is_combined: bool = False

    @property
    def partial_key(self) -> KeySpec:
        """The key among partial results, where its columns come first."""
        return replace(self.key, columns=tuple(range(len(self.key.columns))))

    @property
    def partial_schema(self) -> pa.Schema:
        """What a combiner emits, which can be distinguished from the rows of the stream."""
        keys = [self.carried.field(number) for number in self.key.columns]
        types = [accumulator.type for accumulator in self.aggregation.accumulators]
        for mark in ("", "~"):
            partials = [pa.field(f"{n}{mark}", each) for n, each in enumerate(types)]
            schema = pa.schema([*keys, *partials])
            if schema.names != self.carried.names:
                break
        return schema


@dataclass(frozen=True, slots=True)
class Combine:
    """Partial results of each key, before the shuffle of the ``Aggregate`` whose uid is ``of``.

    Only the plan adds it.
    """

    aggregation: Aggregation
    key: KeySpec
    of: str


@dataclass(frozen=True, slots=True)
class LoopHead:
    """Where rows enter a loop and come back to."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class LoopTail:
    """Where rows of a loop go back: to the operator ``head``."""

    head: str
    round_column: int | None
    max_rounds: int | None


Node = (
    Source
    | Sink
    | Map
    | FlatMap
    | Filter
    | FilterExpression
    | FilterBatches
    | MapBatches
    | Process
    | KeyByFunction
    | KeyByExpression
    | Keyed
    | KeyedBatches
    | CoKeyed
    | Aggregate
    | Combine
    | LoopHead
    | LoopTail
)
