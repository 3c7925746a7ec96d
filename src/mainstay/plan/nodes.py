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
from mainstay.runtime.call_options import CallOptions
from mainstay.runtime.joins import Interval, JoinShape
from mainstay.runtime.operators.connected import ConnectedInput
from mainstay.runtime.operators.gaps import Gaps
from mainstay.runtime.operators.group_function import GroupFunction, GroupTimes
from mainstay.runtime.operators.slicing import TIMESTAMP, RowTimes
from mainstay.runtime.operators.window import Emission
from mainstay.runtime.operators.window_results import WindowResults
from mainstay.runtime.patterns import PatternSpec
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import WatermarkSpec
from mainstay.runtime.windows import FixedWindows
from mainstay.state.aggregates import Aggregation
from mainstay.state.ordering import By
from mainstay.state.timer_handles import EVENT_TIME


def _partials(key: KeySpec, carried: pa.Schema, types: list[pa.DataType]) -> pa.Schema:
    """The columns of a key and of partial results, told apart from the rows of a stream."""
    keys = [carried.field(number) for number in key.columns]
    for mark in ("", "~"):
        partials = [pa.field(f"{n}{mark}", each) for n, each in enumerate(types)]
        schema = pa.schema([*keys, *partials])
        if schema.names != carried.names:
            break
    return schema


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
class MapAsync:
    """One row out for each row in, of a function that is called for many rows at a time."""

    function: Callable[[Any], Any]
    options: CallOptions


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
class Select:
    """Columns of the rows, by number, and what expressions of them give.

    ``times`` are those that have the time of an event, by name, with what is added to what they
    hold; None where the column is gone.
    """

    columns: tuple[int | pc.Expression, ...]
    times: tuple[tuple[str, int | None], ...] = ()


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
    """A ``KeyedProcess`` function. ``is_compiled`` says that it runs as machine code."""

    function: Any
    key: KeySpec
    is_compiled: bool = False


@dataclass(frozen=True, slots=True)
class KeyedBatches:
    """A ``KeyedBatchProcess`` function."""

    function: Any
    key: KeySpec


@dataclass(frozen=True, slots=True)
class KeyedGroups:
    """A function of all rows of a key that come together (see ``GroupFunction``).

    ``given_up`` are states that it had and deletes. ``time_column`` is the time of what it emits,
    where that is told. ``initial`` is the key and the schema of a second input, all of whose rows
    come before those of the first.
    """

    function: GroupFunction
    key: KeySpec
    times: GroupTimes
    given_up: tuple[str, ...] = ()
    time_column: str | None = None
    initial: tuple[KeySpec, pa.Schema] | None = None

    @property
    def needs_time(self) -> bool:
        return self.times.domain == EVENT_TIME


@dataclass(frozen=True, slots=True)
class Connected:
    """A function with a method for each of its inputs, which are in the order of their ports.

    With ``waits`` rows of the first one wait for the end of the second one.
    """

    function: Any
    inputs: tuple[ConnectedInput, ...]
    waits: bool = False


@dataclass(frozen=True, slots=True)
class IntervalJoin:
    """Rows of two inputs whose times lie in an interval of each other."""

    shape: JoinShape
    interval: Interval

    @property
    def needs_time(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class UntilJoin:
    """Rows of two inputs: those of the right one from a time after a left row to the end that the
    left row says. That end is the time of the results, which are never older than it."""

    shape: JoinShape
    lower_us: int

    @property
    def needs_time(self) -> bool:
        return True

    @property
    def time_column(self) -> str:
        left = self.shape.sides[0]
        assert left.end is not None
        return str(left.carried.field(left.end).name)


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """Rows of two inputs that fall into the same window."""

    shape: JoinShape
    windows: FixedWindows

    @property
    def needs_time(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AsOfJoin:
    """Rows of one input, each with the newest of the other that is not newer."""

    shape: JoinShape
    max_age_us: int | None

    @property
    def needs_time(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RegularJoin:
    """Any rows of two inputs with the same key."""

    shape: JoinShape
    ttl_us: int | None


Join = IntervalJoin | UntilJoin | WindowJoin | AsOfJoin | RegularJoin


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
        types = [accumulator.type for accumulator in self.aggregation.accumulators]
        return _partials(self.key, self.carried, types)


@dataclass(frozen=True, slots=True)
class Combine:
    """Partial results of each key, before the shuffle of the ``Aggregate`` whose uid is ``of``.

    Only the plan adds it.
    """

    aggregation: Aggregation
    key: KeySpec
    of: str


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """Aggregates of each key in windows with fixed bounds.

    ``key`` and ``carried`` are those of the stream, of which ``visible`` are the columns that its
    author sees. ``order`` picks what is emitted from the columns of the key, the bounds of the
    window, the results, and whether they are final. ``is_combined`` says that what arrives are
    partial results; the plan decides that.
    """

    aggregation: Aggregation
    windows: FixedWindows
    times: RowTimes
    emission: Emission
    key: KeySpec
    carried: pa.Schema
    visible: tuple[int, ...]
    order: tuple[int, ...]
    is_combined: bool = False
    results: WindowResults | None = None

    @property
    def needs_time(self) -> bool:
        return self.times.column is not None

    @property
    def time_column(self) -> str:
        return "window_end"

    @property
    def partial_key(self) -> KeySpec:
        """The key among partial results, where its columns come first."""
        return replace(self.key, columns=tuple(range(len(self.key.columns))))

    @property
    def partial_schema(self) -> pa.Schema:
        """What a combiner emits, which can be distinguished from the rows of the stream."""
        types = [accumulator.type for accumulator in self.aggregation.accumulators]
        types = [TIMESTAMP.arrow, pa.int64(), *types]
        return _partials(self.key, self.carried, types)


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """Aggregates of each key in sessions. What is not about ``gaps`` is that of
    ``WindowAggregate``."""

    aggregation: Aggregation
    gaps: Gaps
    times: RowTimes
    emission: Emission
    key: KeySpec
    visible: tuple[int, ...]
    order: tuple[int, ...]
    results: WindowResults | None = None

    @property
    def needs_time(self) -> bool:
        return self.times.column is not None

    @property
    def time_column(self) -> str:
        return "window_end"


@dataclass(frozen=True, slots=True)
class CountAggregate:
    """Aggregates of the last ``size`` rows of each key, at each ``every``-th. ``order`` picks what
    is emitted from the columns of the key and the results."""

    aggregation: Aggregation
    size: int
    every: int
    key: KeySpec
    order: tuple[int, ...]
    results: WindowResults | None = None


@dataclass(frozen=True, slots=True)
class SliceCombine:
    """Partial results of each key and slice, before the shuffle of the ``WindowAggregate`` whose
    uid is ``of``.

    Only the plan adds it.
    """

    aggregation: Aggregation
    windows: FixedWindows
    times: RowTimes
    key: KeySpec
    of: str


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The first or the last row of each key; ``by`` is the column that says what is last.

    Where keys are forgotten by event time, ``time`` is its column and ``within_us`` how long they
    are remembered.
    """

    key: KeySpec
    keep: str
    by: int | None = None
    time: int | None = None
    within_us: int = 0

    @property
    def needs_time(self) -> bool:
        """Without a watermark nothing would ever be forgotten."""
        return self.time is not None


@dataclass(frozen=True, slots=True)
class Top:
    """The ``n`` rows of each key that come first in the order of the columns ``by``."""

    key: KeySpec
    n: int
    by: tuple[By, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Rows of a key that follow each other as a pattern says.

    ``time`` is the column of event time and what is added to it; None where rows are matched in
    the order in which they come. ``plain`` is a match as a row, which a function may make another
    of.
    """

    key: KeySpec
    pattern: PatternSpec
    plain: pa.Schema
    function: Any = None
    time: tuple[int, int] | None = None

    @property
    def needs_time(self) -> bool:
        return self.time is not None

    @property
    def time_column(self) -> str | None:
        """What a function makes of a match has a time if it keeps the column of its source."""
        return "match_time" if self.function is None and self.time is not None else None


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


Combiner = Combine | SliceCombine

Node = (
    Source
    | Sink
    | Map
    | FlatMap
    | MapAsync
    | Filter
    | FilterExpression
    | FilterBatches
    | MapBatches
    | Select
    | Process
    | KeyByFunction
    | KeyByExpression
    | Keyed
    | KeyedBatches
    | Connected
    | KeyedGroups
    | Join
    | Aggregate
    | Combine
    | WindowAggregate
    | SessionAggregate
    | CountAggregate
    | SliceCombine
    | Deduplicate
    | Top
    | Match
    | LoopHead
    | LoopTail
)
