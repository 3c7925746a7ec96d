"""Aggregates as a job's author writes them: ``keyed.aggregate(total=ms.sum("amount"))``.

Nulls are passed over by all but ``count()``. See :meth:`mainstay.KeyedStream.aggregate`.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mainstay.api.checks import described
from mainstay.errors import GraphError
from mainstay.runtime.spec import KeySpec
from mainstay.schema import format_type
from mainstay.state.aggregates import Aggregate, Aggregation, aggregation_of

HIDDEN_KEY_NAME = "key"
"""What the key is called in the output where a function made it."""

KNOWN_REDUCTIONS = {
    id(function): name
    for function, name in ((operator.add, "sum"), (builtins.min, "min"), (builtins.max, "max"))
}


def sum(column: str) -> Aggregate:
    """The sum of a column of numbers: a long, a double or a decimal."""
    return Aggregate("sum", _checked(column, "sum"))


def count(column: str | None = None) -> Aggregate:
    """The number of rows, or of the values of a column that are not null."""
    return Aggregate("count", None if column is None else _checked(column, "count"))


def min(column: str) -> Aggregate:
    """The least value of a column; NaN is above every number."""
    return Aggregate("min", _checked(column, "min"))


def max(column: str) -> Aggregate:
    """The greatest value of a column; NaN is above every number."""
    return Aggregate("max", _checked(column, "max"))


def mean(column: str) -> Aggregate:
    """The mean of a column of numbers: a double, or a decimal for decimals."""
    return Aggregate("mean", _checked(column, "mean"))


def first(column: str) -> Aggregate:
    """The first value of a column that is not null."""
    return Aggregate("first", _checked(column, "first"))


def last(column: str) -> Aggregate:
    """The last value of a column that is not null."""
    return Aggregate("last", _checked(column, "last"))


def collect(column: str) -> Aggregate:
    """The list of all values of a column that are not null. Keep it short: it is emitted, and
    stored, as a whole."""
    return Aggregate("collect", _checked(column, "collect"))


def _checked(column: Any, function: str) -> str:
    if not isinstance(column, str):
        raise GraphError(
            f'{function}() needs the name of a column, as in ms.{function}("amount"), not '
            f"{described(column)}."
        )
    return column


def checked_aggregation(
    aggregates: Mapping[str, Any], schema: pa.Schema, key_names: tuple[str, ...], where: str
) -> Aggregation:
    """What the aggregates of an operator come to, or an error that names the one at fault."""
    if not aggregates:
        raise GraphError(
            f'{where} needs at least one aggregate, as in aggregate(total=ms.sum("amount")).'
        )
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise GraphError(
                f"{where}: {name}={described(aggregate)} is no aggregate. Write "
                f'{name}=ms.sum("column"), or another of ms.count, min, max, mean, first, last, '
                "collect."
            )
        if name in key_names:
            raise GraphError(
                f"{where}: the aggregate {name!r} has the name of a column of the key, which is "
                "emitted beside it. Give it another name."
            )
    try:
        return aggregation_of(aggregates, schema)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error


def reduction_of(
    function: Any, schema: pa.Schema, key: KeySpec, where: str
) -> dict[str, Aggregate] | None:
    """The aggregates that a known function of two values comes to; None for any other.

    It is applied to every column that is not part of the key.
    """
    name = KNOWN_REDUCTIONS.get(id(function))
    if name is None:
        return None
    columns = [f for f in schema if key.hidden or f.name not in key.names]
    if not columns:
        raise GraphError(f"{where}: every column of the stream is in its key; none can be reduced.")
    for field in columns:
        if not _can_reduce(name, field.type):
            what = "numbers" if name == "sum" else "values that have an order"
            shown = "operator.add" if name == "sum" else name
            raise GraphError(
                f"{where}: reduce({shown}) is applied to every column outside the key, but "
                f"{field.name!r} is of type {format_type(field.type)}, and only {what} can be "
                "reduced with it. Use aggregate(...) for some of the columns, or a function of "
                "two rows."
            )
    return {field.name: Aggregate(name, field.name) for field in columns}


def _can_reduce(name: str, arrow: pa.DataType) -> bool:
    if name == "sum":
        kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        return any(is_kind(arrow) for is_kind in kinds)
    return not pa.types.is_nested(arrow)
