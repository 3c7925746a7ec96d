"""Aggregates as a job's author writes them: ``keyed.aggregate(total=ms.sum("amount"))``.

Nulls are passed over by all but ``count()``, and so are the rows for which ``where``, an expression
of columns, is false or null. See :meth:`mainstay.KeyedStream.aggregate`.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.api.checks import described
from mainstay.api.expressions import Column, Order, refuse_pyspark
from mainstay.api.ordering import OrderedBy, named_order
from mainstay.errors import GraphError
from mainstay.runtime.spec import KeySpec
from mainstay.schema import format_type
from mainstay.state.aggregates import Aggregate, Aggregation, UserAggregate, aggregation_of
from mainstay.state.declaration import AggregateFunction
from mainstay.state.values import ValueType

HIDDEN_KEY_NAME = "key"
"""What the key is called in the output where a function made it."""

KNOWN_REDUCTIONS = {
    id(function): name
    for function, name in ((operator.add, "sum"), (builtins.min, "min"), (builtins.max, "max"))
}


def sum(column: str, *, where: Column | None = None) -> Aggregate:
    """The sum of a column of numbers: a long, a double or a decimal."""
    return Aggregate("sum", _checked(column, "sum"), _condition(where, "sum"))


def count(column: str | None = None, *, where: Column | None = None) -> Aggregate:
    """The number of rows, or of the values of a column that are not null.

    ``count(where=ms.col("amount") > 100)`` counts the rows for which that is true.
    """
    name = None if column is None else _checked(column, "count")
    return Aggregate("count", name, _condition(where, "count"))


def count_distinct(column: str, *, where: Column | None = None) -> Aggregate:
    """The number of distinct values of a column that are not null, exactly.

    Every value is kept for its key. NaN equals NaN, and -0.0 equals 0.0.
    """
    return Aggregate(
        "count_distinct", _checked(column, "count_distinct"), _condition(where, "count_distinct")
    )


def min(column: str, *, where: Column | None = None) -> Aggregate:
    """The least value of a column; NaN is above every number."""
    return Aggregate("min", _checked(column, "min"), _condition(where, "min"))


def max(column: str, *, where: Column | None = None) -> Aggregate:
    """The greatest value of a column; NaN is above every number."""
    return Aggregate("max", _checked(column, "max"), _condition(where, "max"))


def min_by(
    column: OrderedBy, value: str | Sequence[str], *, where: Column | None = None
) -> Aggregate:
    """The value of another column in the row in which a column is least (see ``max_by``)."""
    return _by("min_by", column, value, where)


def max_by(
    column: OrderedBy, value: str | Sequence[str], *, where: Column | None = None
) -> Aggregate:
    """The value of another column in the row in which a column is greatest.

    ``max_by("price", "bidder")`` is the bidder of the highest price; a list of columns gives a
    struct of them. Of equal rows the earliest counts, and rows whose first column is null do not.

    ``max_by(["price", ms.col("at").asc()], "bidder")`` orders by several columns: of the highest
    price, the one with the least ``at``. Null in a column but the first is behind everything.
    """
    return _by("max_by", column, value, where)


def mean(column: str, *, where: Column | None = None) -> Aggregate:
    """The mean of a column of numbers: a double, or a decimal for decimals."""
    return Aggregate("mean", _checked(column, "mean"), _condition(where, "mean"))


def first(column: str, *, where: Column | None = None) -> Aggregate:
    """The first value of a column that is not null."""
    return Aggregate("first", _checked(column, "first"), _condition(where, "first"))


def last(column: str, *, where: Column | None = None) -> Aggregate:
    """The last value of a column that is not null."""
    return Aggregate("last", _checked(column, "last"), _condition(where, "last"))


def collect(column: str, *, where: Column | None = None) -> Aggregate:
    """The list of all values of a column that are not null. Keep it short: it is emitted, and
    stored, as a whole."""
    return Aggregate("collect", _checked(column, "collect"), _condition(where, "collect"))


def udaf(
    function: AggregateFunction,
    column: str | Sequence[str],
    *,
    accumulator: Any = None,
    returns: Any,
    where: Column | None = None,
) -> Aggregate:
    """An aggregate of your own: an :class:`AggregateFunction`, called for each value of a column.

    With a list of columns it is given a ``Row`` of them. Nulls of a single column are passed over.
    ``accumulator`` is the type of what is kept, as in ``AggregatingState``, pickled where it is
    left out; ``returns`` is the type of what ``result`` gives. A key without values shows null.
    With a method ``merge(accumulator, other)`` rows are combined before they are sent.
    """
    _check_function(function)
    given = _columns(column, "udaf", "Ewma(), ", "price")
    user = UserAggregate(function, ValueType.of(accumulator), ValueType.of(returns))
    return Aggregate("udaf", None, _condition(where, "udaf"), given, user)


def _by(name: str, column: Any, value: Any, where: Any) -> Aggregate:
    values = _columns(value, name, '"price", ', "bidder")
    if not isinstance(column, Column | Order | list | tuple):
        return Aggregate(name, _checked(column, name), _condition(where, name), values)
    is_least = name == "min_by"
    order = named_order(column, is_least, f"{name}()")
    first, is_ascending = order[0]
    if len(order) > 1:
        return Aggregate(name, first, _condition(where, name), values, order=order)
    if is_ascending != is_least:
        other = "max_by" if is_least else "min_by"
        raise GraphError(f"{name}({column!r}, ...): the other direction is ms.{other}({first!r}).")
    return Aggregate(name, first, _condition(where, name), values)


def _checked(column: Any, function: str) -> str:
    if not isinstance(column, str):
        raise GraphError(
            f'{function}() needs the name of a column, as in ms.{function}("amount"), not '
            f"{described(column)}."
        )
    return column


def _columns(given: Any, function: str, before: str, shown: str) -> str | tuple[str, ...]:
    """The name of one column, or of several."""
    if isinstance(given, str):
        return given
    names = tuple(given) if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise GraphError(
            f"{function}() needs the name of a column or a list of names, as in "
            f'ms.{function}({before}"{shown}"), not {described(given)}.'
        )
    if len(set(names)) < len(names):
        raise GraphError(f"{function}({before}{list(names)!r}): a column is named twice.")
    return names


def _condition(where: Any, function: str) -> Column | None:
    refuse_pyspark(where, f"{function}(where=...)")
    if where is None or isinstance(where, Column):
        return where
    raise GraphError(
        f"{function}(where=...) needs an expression of columns, as in "
        f'where=ms.col("amount") > 100, not {described(where)}.'
    )


def _check_function(function: Any) -> None:
    """An object with the methods of an ``AggregateFunction``."""
    if isinstance(function, type):
        raise GraphError(
            f"udaf() got the class {function.__name__}; give it an instance: {function.__name__}()."
        )
    for name in ("create", "add", "result"):
        found = getattr(type(function), name, None)
        if not callable(found) or found is getattr(AggregateFunction, name):
            raise GraphError(
                f"udaf({described(function)}) needs a method {name}(): subclass "
                "ms.AggregateFunction and write create(), add(accumulator, value) and "
                "result(accumulator)."
            )


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
                f'{name}=ms.sum("column"), or another of ms.count, count_distinct, min, max, '
                "min_by, max_by, mean, first, last, collect, udaf."
            )
        if name in key_names:
            raise GraphError(
                f"{where}: the aggregate {name!r} has the name of a column that is emitted beside "
                f"it, as are all of {', '.join(key_names)}. Give it another name."
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
