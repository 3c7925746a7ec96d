"""Aggregates: what may be computed of the rows of a key, and the accumulators that it takes.

The rules are those of Spark SQL. Nulls are passed over by everything but ``count()``, which counts
rows; a sum, minimum, maximum or mean of nothing but nulls is null. Whole numbers are summed as
long, floating ones as double, decimals with ten digits more; a mean is a double, or a decimal with
four more digits.

An accumulator is a field of the operator's one keyed state, a struct. Its name is that of the
aggregate; a mean has two, ``name_sum`` and ``name_count``. The names are part of what is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mainstay.errors import GraphError
from mainstay.schema import format_type
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.info import StateInfo
from mainstay.state.kinds import COLUMNS
from mainstay.state.values import ValueType

STATE = "aggregates"
MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Aggregate:
    """What a job's author asks for: a function and the column it is applied to."""

    function: str
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.function}({'' if self.column is None else repr(self.column)})"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A field of the state. ``column`` is what it takes of the rows; None where they are counted.

    ``of`` is the name of the aggregate it belongs to, for errors.
    """

    name: str
    how: str
    type: pa.DataType
    column: int | None
    of: str


@dataclass(frozen=True, slots=True)
class Output:
    """A column that is emitted: an accumulator as it is, or the mean of a sum and a count."""

    name: str
    type: pa.DataType
    accumulators: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Several aggregates at once: the accumulators of the state, and what is emitted of them."""

    accumulators: tuple[Accumulator, ...]
    outputs: tuple[Output, ...]

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
    for name, aggregate in aggregates.items():
        column = None if aggregate.column is None else _number(schema, name, aggregate)
        given = None if column is None else schema.types[column]
        first = len(accumulators)
        for suffix, how, arrow in _accumulators(name, aggregate, given):
            accumulators.append(Accumulator(name + suffix, how, arrow, column, name))
        numbers = tuple(range(first, len(accumulators)))
        arrow = accumulators[first].type if len(numbers) == 1 else _mean(given)
        outputs.append(Output(name, arrow, numbers))
    _check_fields(accumulators)
    return Aggregation(tuple(accumulators), tuple(outputs))


def _number(schema: pa.Schema, name: str, aggregate: Aggregate) -> int:
    number = schema.get_field_index(aggregate.column)
    if number < 0:
        raise GraphError(
            f"{name}={aggregate}: there is no column {aggregate.column!r}; the stream has "
            f"{one_of(schema.names)}."
            f"{did_you_mean(aggregate.column, schema.names)}"
        )
    return int(number)


def _accumulators(
    name: str, aggregate: Aggregate, given: pa.DataType | None
) -> Iterable[tuple[str, str, pa.DataType]]:
    """Suffix of the name, function and type of each accumulator of an aggregate."""
    function = aggregate.function
    if function == "count":
        return [("", "count", pa.int64())]
    assert given is not None
    if function == "sum":
        return [("", "sum", _sum(name, aggregate, given))]
    if function == "mean":
        total = _sum(name, aggregate, given)
        total = pa.float64() if pa.types.is_integer(total) else total
        return [("_sum", "sum", total), ("_count", "count", pa.int64())]
    if function in ("min", "max") and pa.types.is_nested(given):
        raise GraphError(
            f"{name}={aggregate}: values of type {format_type(given)} have no order. Take the "
            "minimum or maximum of a number, decimal, date, timestamp or string."
        )
    return [("", function, pa.list_(given) if function == "collect" else given)]


def _sum(name: str, aggregate: Aggregate, given: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(given):
        return pa.int64()
    if pa.types.is_floating(given):
        return pa.float64()
    if pa.types.is_decimal(given):
        return pa.decimal128(min(given.precision + 10, MOST_DIGITS), given.scale)
    raise GraphError(
        f"{name}={aggregate}: values of type {format_type(given)} cannot be added up. Choose a "
        "column of numbers, or convert it with map_batches(...) before."
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
