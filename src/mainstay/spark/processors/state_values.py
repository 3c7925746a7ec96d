"""Values of states as Spark gives and takes them, over the form that is kept.

Taken: a tuple, list or ``Row`` in the order of the fields; a text alone where there is one field of
texts; nested structs also as dicts; numpy's and pandas' scalars. Given: a tuple, in which structs
are ``Row``s, arrays lists, maps dicts, and timestamps datetimes without a zone. A value that does
not fit its type is refused.

This is a hot file: a get and an update of a state run for each key and slice, or for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema import format_type, row_class
from mainstay.spark.processors.row_classes import row_maker
from mainstay.spark.processors.settings import ValueSettings
from mainstay.state.backends.compiled import fits
from mainstay.state.freezing import freezer, misfit
from mainstay.state.values import ValueType

Convert = Callable[[Any], Any]


def spark_type(struct: pa.DataType, settings: ValueSettings, *, as_row: bool = False) -> ValueType:
    """The type of a state's values: a struct, as Spark gives and takes it."""
    freeze = _compiled_freezer(struct, settings)
    given = _given(struct, settings)
    thaw = _row_of(struct, given) if as_row else _tuple_of(struct, given)
    return ValueType(struct, format_type(struct), freeze, thaw)


# ------------------------------------------------------------ given


def row_giver(struct: pa.DataType, settings: ValueSettings) -> Convert:
    """From kept values of fields to the row that Spark gives where it reads a state."""
    return _row_of(struct, _given(struct, settings))


def _given(struct: pa.DataType, settings: ValueSettings) -> list[Convert | None]:
    return [_giving(field.type, settings) for field in struct]


def _tuple_of(struct: pa.DataType, given: list[Convert | None]) -> Convert:
    if not any(given):
        return tuple
    return lambda kept: tuple([_one(each, value) for each, value in zip(given, kept, strict=True)])


def _row_of(struct: pa.DataType, given: list[Convert | None]) -> Convert:
    make = row_maker(tuple(field.name for field in struct))
    if not any(given):
        return make
    return lambda kept: make([_one(each, value) for each, value in zip(given, kept, strict=True)])


def _one(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _giving(arrow: pa.DataType, settings: ValueSettings) -> Convert | None:
    """From a kept value to Spark's; None where they are the same."""
    if pa.types.is_struct(arrow):
        return _row_of(arrow, _given(arrow, settings))
    if pa.types.is_map(arrow):
        key, item = _giving(arrow.key_type, settings), _giving(arrow.item_type, settings)
        return lambda kept: {_one(key, name): _one(item, value) for name, value in kept}
    if pa.types.is_list(arrow):
        element = _giving(arrow.value_type, settings)
        return lambda kept: [_one(element, value) for value in kept]
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        zone = None if settings.is_utc else settings.zone
        return lambda kept: naive(kept, zone)
    return None


def naive(at: datetime, zone: tzinfo | None) -> datetime:
    """A datetime in UTC as one without a zone, in the session's; None is UTC."""
    return (at if zone is None else at.astimezone(zone)).replace(tzinfo=None)


# ------------------------------------------------------------ taken


def _compiled_freezer(struct: pa.DataType, settings: ValueSettings) -> Convert:
    """Tuples of plain values are checked in one function that is made for their type."""
    slow = _struct(struct, settings, is_nested=False)
    names = [f"v{number}" for number in range(len(struct))]
    tests = [
        _test(field, fits(ValueType.of(field.type)).replace("value", name))
        for name, field in zip(names, struct, strict=True)
    ]
    if "False" in tests or not tests:
        return slow
    source = _SOURCE.format(names=", ".join(names), tests=" and ".join(f"({t})" for t in tests))
    made: dict[str, Any] = {
        "slow": slow,
        "new": tuple.__new__,
        "row": row_class(pa.schema(list(struct))),
        "count": len(names),
    }
    exec(compile(source, f"<values of type {format_type(struct)}>", "exec"), made)
    freeze: Convert = made["freeze"]
    return freeze


def _test(field: pa.Field, test: str) -> str:
    if test == "False" or not field.nullable:
        return test
    return f"{test.partition('.')[0]} is None or {test}"


_SOURCE = """
def freeze(value):
    if value.__class__ is tuple and len(value) == count:
        ({names},) = value
        if {tests}:
            return new(row, value)
    return slow(value)
"""


def _freezing(arrow: pa.DataType, settings: ValueSettings) -> Convert:
    """From a value of Spark's to the kept one."""
    if pa.types.is_struct(arrow):
        return _struct(arrow, settings, is_nested=True)
    if pa.types.is_map(arrow):
        return _map(arrow, settings)
    if pa.types.is_list(arrow):
        return _list(arrow, settings)
    freeze = freezer(arrow)
    if pa.types.is_timestamp(arrow):
        return _timestamp(arrow, freeze, settings)
    return freeze


def _timestamp(arrow: pa.DataType, freeze: Convert, settings: ValueSettings) -> Convert:
    zone = settings.zone if arrow.tz is not None else None

    def taken(value: Any) -> Any:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if zone is not None and isinstance(value, datetime) and value.tzinfo is None:
            return freeze(value.replace(tzinfo=zone))
        return freeze(value)

    return taken


def _struct(arrow: pa.DataType, settings: ValueSettings, *, is_nested: bool) -> Convert:
    fields, ddl = list(arrow), format_type(arrow)
    names = [field.name for field in fields]
    freezers = [_freezing(field.type, settings) for field in fields]
    row = row_class(pa.schema(fields))
    # Spark takes any iterable. So a text of one letter is a tuple of one there, and programs have
    # come to leave the tuple out.
    is_text = not is_nested and len(fields) == 1 and pa.types.is_string(fields[0].type)

    def taken(value: Any) -> Any:
        if is_nested and isinstance(value, Mapping) and set(names).issuperset(value):
            value = [value.get(name) for name in names]
        elif is_text and isinstance(value, str):
            value = (value,)
        if not isinstance(value, tuple | list | np.ndarray) or len(value) != len(names):
            raise misfit(value, ddl)
        pairs = zip(fields, freezers, value, strict=True)
        return row([_field(field, freeze, each, ddl) for field, freeze, each in pairs])

    return taken


def _field(field: pa.Field, freeze: Convert, value: Any, ddl: str) -> Any:
    if value is None and not field.nullable:
        raise misfit(value, f"{ddl}: its field {field.name} is NOT NULL")
    try:
        return None if value is None else freeze(value)
    except StateTypeError as error:
        raise StateTypeError(f"field {field.name!r}: {error}") from None


def _list(arrow: pa.DataType, settings: ValueSettings) -> Convert:
    element, ddl = _freezing(arrow.value_type, settings), format_type(arrow)

    def taken(value: Any) -> Any:
        if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
            raise misfit(value, ddl)
        try:
            elements = list(value)
        except TypeError:
            raise misfit(value, ddl) from None
        return tuple([None if each is None else element(each) for each in elements])

    return taken


def _map(arrow: pa.DataType, settings: ValueSettings) -> Convert:
    key, item = _freezing(arrow.key_type, settings), _freezing(arrow.item_type, settings)
    ddl = format_type(arrow)

    def taken(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise misfit(value, ddl)
        return tuple(
            {
                key(name): None if each is None else item(each) for name, each in value.items()
            }.items()
        )

    return taken
