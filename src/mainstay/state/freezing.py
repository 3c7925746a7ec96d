"""Freezing: a value checked against its declared type, in a form that nobody can change.

Numbers of numpy and subclasses become the plain Python value, a number for a ``float`` is rounded
to single precision, an array becomes a tuple, a map a tuple of pairs, a struct a Row; so what is
read before a snapshot and after a restore is the same. What a snapshot could not write is refused
here, where the job's author can still see which row it came from.

This is a hot file: ``freeze`` of a scalar runs once per state write (benchmarks/state_access.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Context, Decimal, InvalidOperation
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import SchemaError, StateTypeError
from mainstay.schema import format_type, row_class
from mainstay.schema.transpose import shown

Freeze = Callable[[Any], Any]
NAN = float("nan")
"""The one NaN: a dictionary finds a NaN only by identity, so keys must share one object."""

_SINGLE = struct.Struct("<f")
_FIRST_INEXACT = 1 << 53
# What numpy would turn into a float although it is no real number.
_NO_REALS = (bool, np.bool_, np.complexfloating, np.datetime64, np.timedelta64, np.ndarray)


def misfit(value: Any, ddl: str) -> StateTypeError:
    return StateTypeError(
        f"{shown(value)} ({type(value).__name__}) does not fit the declared type {ddl}. Convert "
        "it before storing it, or declare another type."
    )


def freezer(arrow: pa.DataType) -> Freeze:
    """The function that freezes the values of a (normalised) type. None itself is refused."""
    ddl = format_type(arrow)
    if pa.types.is_integer(arrow):
        return _integer(arrow.bit_width, ddl)
    if pa.types.is_floating(arrow):
        return _floating(ddl, single=arrow.bit_width == 32)
    if pa.types.is_string(arrow):
        return _string(ddl)
    if pa.types.is_boolean(arrow):
        return _boolean(ddl)
    if pa.types.is_binary(arrow):
        return _binary(ddl)
    if pa.types.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale, ddl)
    if pa.types.is_timestamp(arrow):
        return _timestamp(ddl, zoned=arrow.tz is not None)
    if pa.types.is_date(arrow):
        return _date(ddl)
    if pa.types.is_struct(arrow):
        return _struct(arrow, ddl)
    if pa.types.is_map(arrow):
        return _map(arrow, ddl)
    return _list(arrow, ddl)


def check_map_key(arrow: pa.DataType) -> None:
    """Raise a SchemaError unless equal map keys of this type are also equal in storage."""
    if pa.types.is_struct(arrow):
        for field in arrow:
            check_map_key(field.type)
    elif pa.types.is_nested(arrow):
        raise SchemaError(
            f"a map key cannot be or contain the type {format_type(arrow)}; use a struct of its "
            "parts or a string that stands for it"
        )


def _integer(bits: int, ddl: str) -> Freeze:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def freeze(value: Any) -> Any:
        if value.__class__ is not int:
            value = _whole(value, ddl)
        if low <= value <= high:
            return value
        raise misfit(value, ddl)

    return freeze


def _whole(value: Any, ddl: str) -> int:
    # Older versions of numpy take their booleans for whole numbers.
    if isinstance(value, bool | np.bool_):
        raise misfit(value, ddl)
    try:
        return index(value)
    except TypeError:
        raise misfit(value, ddl) from None


def _floating(ddl: str, *, single: bool) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is not float:
            value = _real(value, ddl)
        if value != value:
            return NAN
        return _to_single(value, ddl) if single else value

    return freeze


def _real(value: Any, ddl: str) -> float:
    if isinstance(value, _NO_REALS):
        raise misfit(value, ddl)
    try:
        number = value.__float__()
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise misfit(value, ddl) from None
    if abs(number) >= _FIRST_INEXACT and number != value:
        raise misfit(value, ddl)
    return float(number)


def _to_single(value: float, ddl: str) -> float:
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        raise misfit(value, ddl) from None
    return rounded


def _string(ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is not str:
            if not isinstance(value, str):
                raise misfit(value, ddl)
            # Not str(value), which for an enumeration is the member's name.
            value = str.__str__(value)
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            # Half a surrogate pair could be kept, but never written.
            raise misfit(value, ddl) from None
        return value

    return freeze


def _boolean(ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if value is True or value is False:
            return value
        if isinstance(value, np.bool_):
            return bool(value)
        raise misfit(value, ddl)

    return freeze


def _binary(ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return memoryview(value).tobytes()
        raise misfit(value, ddl)

    return freeze


def _decimal(precision: int, scale: int, ddl: str) -> Freeze:
    unit = Decimal(1).scaleb(-scale)
    context = Context(prec=precision, traps=[InvalidOperation])

    def freeze(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, Decimal | int):
            raise misfit(value, ddl)
        try:
            fitted = Decimal(value).quantize(unit, context=context)
        except InvalidOperation:
            raise misfit(value, ddl) from None
        if fitted != value:
            raise misfit(value, ddl)
        return fitted

    return freeze


def _timestamp(ddl: str, *, zoned: bool) -> Freeze:
    utc = timezone.utc

    def freeze(value: Any) -> Any:
        if value.__class__ is not datetime:
            value = _plain_datetime(value, ddl)
        zone = value.tzinfo
        if zone is None:
            return value.replace(tzinfo=utc) if zoned else value
        if zone is not utc:
            try:
                value = value.astimezone(utc)
            except OverflowError:
                raise misfit(value, ddl) from None
        return value if zoned else value.replace(tzinfo=None)

    return freeze


def _plain_datetime(value: Any, ddl: str) -> datetime:
    """The datetime that a subclass stands for; pandas' NaT and nanoseconds stand for none."""
    if not isinstance(value, datetime) or getattr(value, "nanosecond", None):
        raise misfit(value, ddl)
    try:
        return datetime.combine(value.date(), value.timetz())
    except (ValueError, TypeError):
        raise misfit(value, ddl) from None


def _date(ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is date:
            return value
        if isinstance(value, date) and not isinstance(value, datetime):
            return date(value.year, value.month, value.day)
        raise misfit(value, ddl)

    return freeze


def _optional(freeze: Freeze) -> Freeze:
    return lambda value: None if value is None else freeze(value)


def _elements(value: Any, ddl: str) -> Iterator[Any]:
    # A string or a dict is iterable, but hardly ever meant as the list of what it yields.
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        raise misfit(value, ddl)
    try:
        elements: Iterator[Any] = iter(value)
        return elements
    except TypeError:
        raise misfit(value, ddl) from None


def _list(arrow: pa.ListType, ddl: str) -> Freeze:
    item = _optional(freezer(arrow.value_type))

    def freeze(value: Any) -> Any:
        return tuple([item(element) for element in _elements(value, ddl)])

    return freeze


def _map(arrow: pa.MapType, ddl: str) -> Freeze:
    check_map_key(arrow.key_type)
    key = freezer(arrow.key_type)
    item = _optional(freezer(arrow.item_type))

    def freeze(value: Any) -> Any:
        pairs = value.items() if isinstance(value, Mapping) else list(_elements(value, ddl))
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise misfit(value, ddl)
        # Through a dictionary, in which equal keys are one.
        return tuple({key(name): item(element) for name, element in pairs}.items())

    return freeze


def _struct(arrow: pa.StructType, ddl: str) -> Freeze:
    fields = list(arrow)
    names = tuple(field.name for field in fields)
    freezers = [
        _optional(freezer(field.type)) if field.nullable else freezer(field.type)
        for field in fields
    ]
    row = row_class(pa.schema(fields))

    def freeze(value: Any) -> Any:
        if value.__class__ is not row:
            value = _in_order(value, names, ddl)
        return row([freeze(item) for freeze, item in zip(freezers, value, strict=True)])

    return freeze


def _in_order(value: Any, names: tuple[str, ...], ddl: str) -> Sequence[Any]:
    """The fields of a struct that was given by position or by name; None where one is left out."""
    named = value
    if isinstance(value, tuple | list):
        # pyspark's Row keeps its names in each object, a named tuple in its class.
        given = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
        if given is None and len(value) == len(names):
            return value
        named = None if given is None else dict(zip(given, value, strict=False))
    if not isinstance(named, Mapping) or not set(names).issuperset(named):
        raise misfit(value, ddl)
    return [named.get(name) for name in names]
