"""Values within what a processor yields, as Spark takes them.

A struct is taken by the names of its fields, also within arrays and maps: fields that the schema
does not have are left out, missing ones are null. A datetime without a zone is in the session's,
as it is where a state gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]


def fitting(arrow: pa.DataType, zone: tzinfo | None) -> Convert | None:
    """What makes a value of a column fit; None where nothing has to be made of it.

    What does not fit anyway stays as it is, to be refused with the name of its column. No ``zone``
    is UTC.
    """
    if pa.types.is_struct(arrow):
        return _struct(arrow, zone)
    if pa.types.is_map(arrow):
        return _map(arrow, zone)
    if pa.types.is_list(arrow):
        return _list(arrow, zone)
    if zone is not None and pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return lambda value: in_session(value, zone)
    return None


def in_session(value: Any, zone: tzinfo) -> Any:
    """A datetime without a zone as one in the session's."""
    is_naive = isinstance(value, datetime) and value.tzinfo is None
    return value.replace(tzinfo=zone) if is_naive else value


def _one(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _struct(arrow: pa.DataType, zone: tzinfo | None) -> Convert:
    names = [field.name for field in arrow]
    parts = [fitting(field.type, zone) for field in arrow]

    def made(value: Any) -> Any:
        fields = getattr(value, "__fields__", None)
        if fields is not None and isinstance(value, tuple):
            value = dict(zip(fields, value, strict=False))
        if isinstance(value, Mapping):
            value = [value.get(name) for name in names]
        if not isinstance(value, tuple | list) or len(value) != len(names):
            return value
        return tuple([_one(part, each) for part, each in zip(parts, value, strict=True)])

    return made


def _list(arrow: pa.DataType, zone: tzinfo | None) -> Convert | None:
    part = fitting(arrow.value_type, zone)
    if part is None:
        return None

    def made(value: Any) -> Any:
        is_array = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
        return [_one(part, each) for each in value] if is_array else value

    return made


def _map(arrow: pa.DataType, zone: tzinfo | None) -> Convert | None:
    key, item = fitting(arrow.key_type, zone), fitting(arrow.item_type, zone)
    if key is None and item is None:
        return None

    def made(value: Any) -> Any:
        if isinstance(value, Mapping):
            value = list(value.items())
        if not isinstance(value, list | tuple) or not all(map(_is_pair, value)):
            return value
        return [(_one(key, name), _one(item, each)) for name, each in value]

    return made


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2
