"""Aggregates: what may be computed of the rows of a key, and the accumulators that it takes.

The rules are those of Spark SQL. Nulls are passed over by everything but ``count()``, which counts
rows; a sum, minimum, maximum or mean of nothing but nulls is null. Whole numbers are summed as
long, floating ones as double, decimals with ten digits more; a mean is a double, or a decimal with
four more digits.

An accumulator is a field of the operator's one keyed state, a struct. Its name is that of the
aggregate; a mean has two, ``name_sum`` and ``name_count``. The names are part of what is stored.

A condition (``where``) leaves rows out of one aggregate. It is no part of what is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError, SchemaError
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.conditions import Condition, Expression
from mainstay.state.freezing import check_map_key
from mainstay.state.info import StateInfo
from mainstay.state.kinds import COLUMNS
from mainstay.state.ordering import By
from mainstay.state.values import ValueType

STATE = "aggregates"
MOST_DIGITS = 38
LISTS = ("collect", "count_distinct")
"""The functions that keep a list of values."""


@dataclass(frozen=True, slots=True)
class UserAggregate:
    """An aggregate of the job's author: an ``AggregateFunction``, and the types around it.

    ``takes`` is the type of what is added, which is known once there is a stream.
    """

    function: Any
    accumulator: ValueType
    returns: ValueType
    takes: pa.DataType | None = None

    @property
    def can_merge(self) -> bool:
        return callable(getattr(self.function, "merge", None))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What a job's author asks for: a function and the column it is applied to.

    ``values`` names what is chosen by ``max_by`` and ``min_by``, or given to a function of the
    job's author (``user``): one column, or several that become a struct. ``where`` says which rows
    count.
    """

    function: str
    column: str | None = None
    where: Expression | None = field(default=None, compare=False)
    values: str | tuple[str, ...] = ()
    user: UserAggregate | None = field(default=None, compare=False)
    order: tuple[tuple[str, bool], ...] = ()
    """The columns of an order of several, each with whether its least value comes first."""

    def __str__(self) -> str:
        given = [] if self.column is None else [repr(self.column)]
        if self.order:
            given = [repr([name for name, _ in self.order])]
        if self.user is not None:
            given.append(f"{type(self.user.function).__name__}()")
        if self.values:
            given.append(repr(self.values if isinstance(self.values, str) else list(self.values)))
        if self.where is not None:
            given.append(f"where={self.where!r}")
        return f"{self.function}({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Best:
    """Which rows are kept of all: the first ``count`` in the order of the fields ``by``. With
    ``ties`` also those that are equal to the last of them."""

    count: int
    by: tuple[By, ...]
    ties: bool = False


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A field of the state. ``column`` is what it takes of the rows; None where they are counted.

    ``of`` is the name of the aggregate it belongs to, for errors. ``columns`` are those of the
    ``values`` of an aggregate, or of a row where whole rows are kept; ``best`` says which rows.
    """

    name: str
    how: str
    type: pa.DataType
    column: int | None
    of: str
    where: Condition | None = None
    columns: tuple[int, ...] = ()
    user: UserAggregate | None = field(default=None, compare=False)
    best: Best | None = None
    order: tuple[By, ...] = ()
    """The columns of the order of ``max_by`` and ``min_by``, where it has several."""

    @property
    def can_merge(self) -> bool:
        """Whether two partial results can be made one: whether there can be combiners and panes."""
        return self.user is None or self.user.can_merge


@dataclass(frozen=True, slots=True)
class Output:
    """A column that is emitted: what one accumulator comes to, or the mean of a sum and a count."""

    name: str
    type: pa.DataType
    accumulators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Several aggregates at once: the accumulators of the state, and what is emitted of them."""

    accumulators: tuple[Accumulator, ...]
    outputs: tuple[Output, ...]

    @property
    def can_merge(self) -> bool:
        """Whether partial results of a key can be merged with each other."""
        return all(accumulator.can_merge for accumulator in self.accumulators)

    def state(self) -> StateInfo:
        """The one keyed state, which the storage sees as a value."""
        fields = [pa.field(a.name, a.type) for a in self.accumulators]
        return StateInfo(
            STATE, COLUMNS, ValueType.of(pa.struct(fields)), function=self.accumulators
        )


def aggregation_of(aggregates: Mapping[str, Aggregate], schema: pa.Schema) -> Aggregation:
    """The accumulators for named aggregates of the columns of a stream."""
    accumulators: list[Accumulator] = []
    outputs: list[Output] = []
    conditions: list[Condition] = []
    for name, aggregate in aggregates.items():
        where = _condition(name, aggregate, schema, conditions)
        wanted = _Wanted(name, aggregate, schema)
        first = len(accumulators)
        for suffix, how, arrow in wanted.accumulators():
            accumulators.append(
                Accumulator(
                    name + suffix,
                    how,
                    arrow,
                    wanted.column,
                    name,
                    where,
                    wanted.columns,
                    wanted.user,
                    order=wanted.order,
                )
            )
        numbers = tuple(range(first, len(accumulators)))
        outputs.append(Output(name, wanted.result(accumulators[first].type), numbers))
    _check_fields(accumulators)
    return Aggregation(tuple(accumulators), tuple(outputs))


def _condition(
    name: str, aggregate: Aggregate, schema: pa.Schema, known: list[Condition]
) -> Condition | None:
    """The condition of an aggregate; one for all that are the same, which is evaluated once."""
    if aggregate.where is None:
        return None
    expression, arrow = aggregate.where.bound(schema, f"{name}={aggregate}")
    if not pa.types.is_boolean(arrow):
        raise GraphError(
            f"{name}={aggregate}: where= is of type {format_type(arrow)} and must be true or "
            'false. Write a comparison, as in where=ms.col("amount") > 5.'
        )
    condition = Condition(expression, len(schema))
    if condition in known:
        return known[known.index(condition)]
    known.append(condition)
    return condition


class _Wanted:
    """An aggregate that has met its stream: the columns, and the types that follow from them."""

    def __init__(self, name: str, aggregate: Aggregate, schema: pa.Schema) -> None:
        self._name, self._aggregate = name, aggregate
        self.column = None if aggregate.column is None else self._number(schema, aggregate.column)
        self._given = None if self.column is None else schema.types[self.column]
        self.order = tuple(By(self._number(schema, by), first) for by, first in aggregate.order)
        self._by = [schema.field(by.column).with_nullable(True) for by in self.order]
        values = aggregate.values
        names = (values,) if isinstance(values, str) else values
        self.columns = tuple(self._number(schema, each) for each in names)
        fields = [schema.field(number).with_nullable(True) for number in self.columns]
        self._chosen = fields[0].type if isinstance(values, str) else pa.struct(fields)
        user = aggregate.user
        self.user = None if user is None else replace(user, takes=self._chosen)

    def _number(self, schema: pa.Schema, column: str) -> int:
        number = schema.get_field_index(column)
        if number < 0:
            raise self._error(
                f"there is no column {column!r}; the stream has {one_of(schema.names)}."
                f"{did_you_mean(column, schema.names)}"
            )
        return int(number)

    def _error(self, text: str) -> GraphError:
        return GraphError(f"{self._name}={self._aggregate}: {text}")

    def accumulators(self) -> Iterable[tuple[str, str, pa.DataType]]:
        """Suffix of the name, function and type of each accumulator."""
        function, given = self._aggregate.function, self._given
        if function == "count":
            return [("", "count", pa.int64())]
        if self.user is not None:
            return [("", "user", self.user.accumulator.arrow)]
        assert given is not None
        if function == "sum":
            return [("", "sum", self._sum(given))]
        if function == "mean":
            total = self._sum(given)
            total = pa.float64() if pa.types.is_integer(total) else total
            return [("_sum", "sum", total), ("_count", "count", pa.int64())]
        if function in ("min", "max", "min_by", "max_by"):
            for each in (given, *(field.type for field in self._by)):
                self._check_order(each)
        if function in ("min_by", "max_by"):
            by = pa.struct(self._by) if self.order else given
            fields = [pa.field("by", by), pa.field("value", self._chosen)]
            return [("", function, pa.struct(fields))]
        if function == "count_distinct":
            self._check_equality(given)
        return [("", function, pa.list_(given) if function in LISTS else given)]

    def result(self, accumulated: pa.DataType) -> pa.DataType:
        """The type of what is emitted."""
        function = self._aggregate.function
        if function == "mean":
            return _mean(self._given)
        if function == "count_distinct":
            return pa.int64()
        if function in ("min_by", "max_by"):
            return self._chosen
        return accumulated if self.user is None else self.user.returns.arrow

    def _check_order(self, given: pa.DataType) -> None:
        if pa.types.is_nested(given):
            raise self._error(
                f"values of type {format_type(given)} have no order. Take the minimum or maximum "
                "of a number, decimal, date, timestamp or string."
            )

    def _check_equality(self, given: pa.DataType) -> None:
        try:
            check_map_key(given)
        except SchemaError:
            raise self._error(
                f"values of type {format_type(given)} cannot be told apart by columns. Count the "
                "distinct values of one of its fields, or of a string that stands for it."
            ) from None

    def _sum(self, given: pa.DataType) -> pa.DataType:
        if pa.types.is_integer(given):
            return pa.int64()
        if pa.types.is_floating(given):
            return pa.float64()
        if pa.types.is_decimal(given):
            return pa.decimal128(min(given.precision + 10, MOST_DIGITS), given.scale)
        raise self._error(
            f"values of type {format_type(given)} cannot be added up. Choose a column of numbers, "
            "or convert it with map_batches(...) before."
        )


def _mean(given: pa.DataType | None) -> pa.DataType:
    if given is None or not pa.types.is_decimal(given):
        return pa.float64()
    precision, scale = given.precision + 4, given.scale + 4
    return pa.decimal128(min(precision, MOST_DIGITS), min(scale, MOST_DIGITS))


def _check_fields(accumulators: Sequence[Accumulator]) -> None:
    counts = Counter(accumulator.name for accumulator in accumulators)
    for name, times in counts.items():
        if times > 1:
            users = [a.of for a in accumulators if a.name == name]
            raise GraphError(
                f"the aggregates {' and '.join(map(repr, users))} would both be kept under the "
                f"name {name!r}, because a mean is kept as a sum and a count. Rename one of them."
            )
