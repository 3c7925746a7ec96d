"""From Python values to an Arrow column, with errors that name the value that does not fit."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate, chain
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from mainstay.errors import SchemaError
from mainstay.schema.ddl import format_type
from mainstay.schema.sizes import TooLargeError, in_one
from mainstay.schema.transpose import columns_of, shown

_LONG = pa.int64()
_CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def array_of(values: Sequence[Any], data_type: pa.DataType, place: str) -> pa.Array:
    """The values as an array of the declared type; ``place`` names the column in errors.

    Nothing is converted at a loss: a float is no integer, a number no timestamp, a string no list.
    Naive datetimes are taken as UTC. A struct may be given as whatever a row may be given as (see
    ``columns_of``), a map as a dict or as pairs.
    """
    if pa.types.is_struct(data_type):
        return _struct_array(values, data_type, place)
    if pa.types.is_map(data_type):
        return _map_array(values, data_type, place)
    if pa.types.is_list(data_type):
        return _list_array(values, data_type, place)
    return _simple_array(values, data_type, place)


def longs(values: Sequence[Any]) -> pa.Array | None:
    """Whole numbers as a column of 64-bit integers; None unless all of them are just that.

    The standard library's arrays check as strictly as we do, and take a third of the time.
    """
    try:
        data = array("q", values)
    except (TypeError, OverflowError):
        return None
    return pa.Array.from_buffers(_LONG, len(data), [None, pa.py_buffer(data)])


def check_not_null(array: pa.Array, field: pa.Field, place: str, absent: int = 0) -> None:
    """Raise a SchemaError if a NOT NULL column has more nulls than it has absent parents."""
    if not field.nullable and array.null_count > absent:
        raise SchemaError(
            f"{place}: a value is None but the column is declared NOT NULL; "
            "give a value or drop NOT NULL from the declaration"
        )


def _simple_array(values: Sequence[Any], data_type: pa.DataType, place: str) -> pa.Array:
    if data_type == _LONG and (whole := longs(values)) is not None:
        return whole
    fits = _guard(data_type)
    if fits is not None and not all(map(fits, set(map(type, values)))):
        _misfit(next(value for value in values if not fits(type(value))), data_type, place)
    try:
        return in_one(pa.array(values, data_type))
    except pa.ArrowCapacityError as error:
        raise TooLargeError from error
    except _CONVERSION_ERRORS as error:
        _misfit(_first_misfit(values, data_type), data_type, place, error)


def _guard(data_type: pa.DataType) -> Callable[[type], bool] | None:
    """Which Python types may become this type, where pyarrow itself would take too many."""
    if pa.types.is_integer(data_type):
        return _is_integer
    if pa.types.is_floating(data_type):
        return _is_no_bool
    if pa.types.is_timestamp(data_type):
        return _is_datetime
    if pa.types.is_date(data_type):
        return _is_date
    return None


def _is_integer(kind: type) -> bool:
    return kind is type(None) or hasattr(kind, "__index__")


def _is_no_bool(kind: type) -> bool:
    return kind is not bool


def _is_datetime(kind: type) -> bool:
    return issubclass(kind, (datetime, np.datetime64, type(None)))


def _is_date(kind: type) -> bool:
    return issubclass(kind, (date, np.datetime64, type(None))) and not issubclass(kind, datetime)


def _first_misfit(values: Sequence[Any], data_type: pa.DataType) -> Any:
    for value in values:
        try:
            pa.array([value], data_type)
        except _CONVERSION_ERRORS:
            return value
    return values


def _misfit(
    value: Any, data_type: pa.DataType, place: str, cause: BaseException | None = None
) -> NoReturn:
    reason = f" ({cause})" if cause is not None else ""
    raise SchemaError(
        f"{place}: the value {shown(value)} of type {type(value).__name__} does not fit the "
        f"declared type {format_type(data_type)}{reason}; convert the value or change the "
        "declaration"
    ) from cause


def _struct_array(values: Sequence[Any], data_type: pa.DataType, place: str) -> pa.Array:
    fields = list(data_type)
    nulls = [value is None for value in values]
    nothing = (None,) * len(fields)
    rows = [nothing if value is None else value for value in values]
    columns = columns_of(rows, tuple(field.name for field in fields), place)
    children = []
    for field, column in zip(fields, columns, strict=True):
        where = f"{place}, field {field.name!r}"
        child = array_of(column, field.type, where)
        check_not_null(child, field, where, absent=sum(nulls))
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(nulls, pa.bool_()))


def _list_array(values: Sequence[Any], data_type: pa.DataType, place: str) -> pa.Array:
    lists = [_elements(value, data_type, place) for value in values]
    elements = list(chain.from_iterable(lists))
    child = array_of(elements, data_type.value_type, f"{place}, an element")
    array = pa.ListArray.from_arrays(_offsets(values, lists), child)
    return array if array.type == data_type else array.cast(data_type)


def _map_array(values: Sequence[Any], data_type: pa.DataType, place: str) -> pa.Array:
    lists = [_pairs(value, data_type, place) for value in values]
    pairs = list(chain.from_iterable(lists))
    keys = array_of([pair[0] for pair in pairs], data_type.key_type, f"{place}, a map key")
    if keys.null_count:
        raise SchemaError(f"{place}: a map key is None; give every entry of the map a key")
    items = array_of([pair[1] for pair in pairs], data_type.item_type, f"{place}, a map value")
    array = pa.MapArray.from_arrays(_offsets(values, lists), keys, items)
    return array if array.type == data_type else array.cast(data_type)


def _elements(value: Any, data_type: pa.DataType, place: str) -> Sequence[Any]:
    if value is None:
        return ()
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        _misfit(value, data_type, place)
    return list(value)


def _pairs(value: Any, data_type: pa.DataType, place: str) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value.items())
    pairs = _elements(value, data_type, place)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        _misfit(value, data_type, place)
    return pairs


def _offsets(values: Sequence[Any], lists: Sequence[Sequence[Any]]) -> pa.Array:
    """Where each list begins, null for a null one, and where the last one ends."""
    bounds = list(accumulate(map(len, lists), initial=0))
    starts = [
        None if value is None else start for value, start in zip(values, bounds[:-1], strict=True)
    ]
    return pa.array([*starts, bounds[-1]], pa.int32())
