"""Which key-groups a filter leaves: what says the key, or the key-group, spares the other files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from operator import ge, gt, le, lt
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mainstay.inspect.reading import StateView

MOST_KEYS = 1_000
"""Where filters name more keys than this, all key-groups are read."""

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    GreaterThan: gt,
    GreaterThanOrEqual: ge,
    LessThan: lt,
    LessThanOrEqual: le,
}


def groups_left(view: StateView, filters: Sequence[Filter]) -> list[int] | None:
    """The key-groups that may hold rows which all filters let through; None for all."""
    if not view.columns.is_keyed:
        return None
    every = range(view.key_groups)
    left = set(every)
    named = _groups_of_keys(view, filters)
    if named is not None:
        left &= named
    for item in filters:
        passes = _on_groups(item, view.columns.group_column)
        if passes is not None:
            left = {group for group in left if passes(group)}
    return None if len(left) == len(every) else sorted(left)


def _on_groups(item: Filter, column: str) -> Callable[[int], bool] | None:
    """What a filter says of key-groups; None for one of another column, or of another kind."""
    if getattr(item, "attribute", None) != (column,):
        return None
    values = _values(item)
    if values is not None:
        return lambda group: group in values
    compare = _COMPARISONS.get(type(item))
    bound = getattr(item, "value", None)
    if compare is None or not isinstance(bound, int):
        return None
    return lambda group: compare(group, bound)


def _groups_of_keys(view: StateView, filters: Iterable[Filter]) -> set[int] | None:
    """The key-groups of the keys that filters name; None where they leave the key open."""
    columns = view.columns.key_columns()
    named: dict[str, Sequence[Any]] = {}
    for item in filters:
        attribute: tuple[str, ...] = getattr(item, "attribute", ())
        values = _values(item)
        if len(attribute) == 1 and attribute[0] in columns and values is not None:
            named[attribute[0]] = values
    types = [field.type for field in view.columns.key_fields()]
    if set(named) != set(columns) or not all(map(_is_exact, types)):
        return None
    if math.prod(len(values) for values in named.values()) > MOST_KEYS:
        return None
    keys = list(product(*(named[column] for column in columns)))
    return set(view.groups_of(keys)) if keys else set()


def _values(item: Filter) -> Sequence[Any] | None:
    """The values that a filter lets through, where it names them."""
    if isinstance(item, EqualTo | EqualNullSafe):
        return (item.value,)
    return tuple(item.value) if isinstance(item, In) else None


def _is_exact(data_type: pa.DataType) -> bool:
    """Whether Spark hands over values of a type in the form that we hash.

    Numbers with fractions and timestamps come in forms that need not be ours.
    """
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_boolean, pa.types.is_date)
    return any(is_kind(data_type) for is_kind in kinds)
