"""Columns from outside whose values their type does not have: texts that are no UTF-8, times beyond
years, decimals with too many digits.

Arrow data is taken as it is, and nothing looks at it before a function of the job does. What would
fail there, in every attempt, has to be found where it is read.
"""

from __future__ import annotations

from datetime import date, datetime, timezone
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import SchemaError

UNWRITABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What encoding raises for values that cannot be encoded, however often it is tried."""


def check_sound(column: pa.Array, name: str) -> None:
    """Refuse an array whose buffers or values are not what its type says."""
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise SchemaError(f"column {name!r} is damaged: {error}") from error
    check_values(column, name)


def check_values(column: pa.Array, name: str) -> None:
    """Refuse times outside of the years 1 to 9999, decimals beyond their precision, and nulls in
    fields of structs that are NOT NULL.

    Python and Spark have none of these. Arrow's readers of CSV and JSON count the digits of a
    decimal before they scale it: ``1000`` passes for a ``decimal(5,2)``.
    """
    data_type = column.type
    if pa.types.is_struct(data_type):
        for part, field in zip(column.flatten(), data_type, strict=True):
            _check_present(column, part, field, name)
            check_values(part, name)
    elif pa.types.is_list(data_type):
        check_values(column.flatten(), name)
    elif pa.types.is_map(data_type):
        for part in (column.keys, column.items):
            check_values(part, name)
    elif pa.types.is_timestamp(data_type) or pa.types.is_date(data_type):
        _check_range(column, name)
    elif pa.types.is_decimal(data_type):
        _check_precision(column, name)


def _check_present(parent: pa.Array, part: pa.Array, field: pa.Field, name: str) -> None:
    """Refuse a struct without a field that is declared NOT NULL; one that is absent needs none."""
    if not field.nullable and part.null_count > parent.null_count:
        raise SchemaError(
            f"column {name!r}: the field {field.name!r} is null but is declared NOT NULL"
        )


def _check_precision(column: pa.Array, name: str) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        most = 10 ** (column.type.precision - column.type.scale)
        beyond = next(each for each in column.to_pylist() if each is not None and abs(each) >= most)
        raise SchemaError(
            f"column {name!r} has the number {beyond}, which does not fit "
            f"decimal({column.type.precision},{column.type.scale})"
        ) from error


def _check_range(column: pa.Array, name: str) -> None:
    numbers = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    found = pc.min_max(numbers)
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is None:
        return
    first, last = _bounds(column.type)
    if least < first or most > last:
        raise SchemaError(f"column {name!r} has a time outside of the years 1 to 9999")


@lru_cache(maxsize=64)
def _bounds(data_type: pa.DataType) -> tuple[int, int]:
    if pa.types.is_date(data_type):
        days = (date.min, date.max)
        first, last = (pa.scalar(day, data_type).value for day in days)
        return first, last
    zone = timezone.utc if data_type.tz else None
    times = (datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone))
    first, last = (pa.scalar(time, data_type).value for time in times)
    return first, last
