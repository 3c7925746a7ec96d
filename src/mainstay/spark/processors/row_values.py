"""Rows of a job as Spark's functions see them, and what they yield as batches.

A timestamp is a datetime in the session's zone, a struct a dict, a map a list of pairs, as in the
rows that Spark hands to a processor. What is yielded is taken by the names of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import partial
from types import GeneratorType
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from mainstay.errors import SchemaError
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.schema import rows_to_batches, values_of
from mainstay.schema.transpose import shown
from mainstay.spark.processors.row_classes import row_maker
from mainstay.spark.processors.settings import ValueSettings
from mainstay.spark.processors.state_values import row_giver
from mainstay.spark.processors.yielded import fitting
from mainstay.state.values import ValueType


class RowReader:
    """Rows and keys of batches, for one operator."""

    def __init__(self, reader: KeyReader, settings: ValueSettings) -> None:
        self._reader = reader
        self._settings = settings
        self._make = row_maker(tuple(reader.schema.names))
        zoned = pa.types.is_timestamp(reader.key_type.arrow) and not settings.is_utc
        self._plain_key = None if zoned else reader.plain_key

    def keys_and_rows(self, batch: pa.RecordBatch) -> tuple[list[Any], Iterator[Row]]:
        """The kept keys and the rows of a batch."""
        columns = [self._values(column) for column in self._reader.visible(batch).columns]
        plain = self._plain_key
        keys = self._reader.keys(batch) if plain is None else columns[plain]
        return keys, map(self._make, zip(*columns, strict=True))

    def _values(self, column: pa.Array) -> list[Any]:
        return spark_values(column, self._settings)


def spark_values(column: pa.Array, settings: ValueSettings) -> list[Any]:
    """The values of a column as Spark gives them in rows."""
    if pa.types.is_nested(column.type):
        if not settings.is_utc:
            column = column.cast(in_zone(column.type, settings.zone_name))
        values: list[Any] = column.to_pylist()
        return values
    values = values_of(column)
    if not settings.is_utc and pa.types.is_timestamp(column.type) and column.type.tz is not None:
        zone = settings.zone
        return [None if value is None else value.astimezone(zone) for value in values]
    return values


def in_zone(arrow: pa.DataType, zone: str) -> pa.DataType:
    """A type with its timestamps in another zone."""
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(in_zone(field.type, zone)) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(in_zone(arrow.key_type, zone), in_zone(arrow.item_type, zone))
    if pa.types.is_list(arrow):
        return pa.list_(in_zone(arrow.value_type, zone))
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return pa.timestamp(arrow.unit, tz=zone)
    return arrow


class KeyTuples:
    """Keys as a processor is given them: tuples, also of one column, in which a struct is a dict.
    Where a timer fires they are rows with the values of a state: structs are rows, and timestamps
    have no zone."""

    def __init__(self, key: ValueType, names: Sequence[str], settings: ValueSettings) -> None:
        self._is_struct = len(names) > 1
        types = [field.type for field in key.arrow] if self._is_struct else [key.arrow]
        zone = None if settings.is_utc else settings.zone
        self._parts = [_part(each, zone) for each in types]
        self._has_parts = any(self._parts)
        self.is_plain = not self._is_struct and not self._has_parts
        """Whether the tuple of a key is just the key, as it is kept."""
        columns = pa.struct(list(zip(names, types, strict=True)))
        self._row = row_giver(columns, settings)

    def of(self, key: Any) -> tuple[Any, ...]:
        """The tuple of a kept key."""
        values = tuple(key) if self._is_struct else (key,)
        return _converted(values, self._parts) if self._has_parts else values

    def row(self, key: Any) -> Row:
        """The row of the key's columns."""
        made: Row = self._row(key if self._is_struct else (key,))
        return made


Part = Callable[[Any], Any] | None
"""Makes what a processor is given of a part of a kept key; None for one that is given as it is."""


def _part(arrow: pa.DataType, zone: tzinfo | None) -> Part:
    if pa.types.is_struct(arrow):
        names = [field.name for field in arrow]
        parts = [_part(field.type, zone) for field in arrow]
        return partial(_as_dict, names=names, parts=parts)
    if zone is not None and pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return lambda value: None if value is None else value.astimezone(zone)
    return None


def _as_dict(value: Any, names: Sequence[str], parts: Sequence[Part]) -> Any:
    return None if value is None else dict(zip(names, _converted(value, parts), strict=True))


def _converted(values: Iterable[Any], parts: Sequence[Part]) -> tuple[Any, ...]:
    pairs = zip(values, parts, strict=True)
    return tuple([value if part is None else part(value) for value, part in pairs])


class RowWriter:
    """What a processor yields, as batches of the declared schema."""

    def __init__(self, schema: pa.Schema, uid: str, settings: ValueSettings) -> None:
        self._schema = schema
        self._names = list(schema.names)
        self._where = f"operator {uid!r}"
        zone = None if settings.is_utc else settings.zone
        fits = [fitting(field.type, zone) for field in schema]
        self._fits = [(number, fit) for number, fit in enumerate(fits) if fit is not None]

    def batches(self, rows: list[Any]) -> list[pa.RecordBatch]:
        """The rows of one slice."""
        if not rows:
            return []
        names, taken = self._names, []
        for row in rows:
            fields = getattr(row, "__fields__", None)
            if fields == names:
                taken.append(tuple(row))
            else:
                taken.append(self._by_name(row, fields))
        if self._fits:
            taken = [self._fitted(row) for row in taken]
        return list(rows_to_batches(taken, self._schema, self._where))

    def _by_name(self, row: Any, fields: Any) -> tuple[Any, ...]:
        """Fields that the schema does not have are left out, missing ones are null."""
        if not isinstance(row, Row) or fields is None:
            columns = ", ".join(f"{name}=..." for name in self._names)
            raise SchemaError(
                f"{self._where}: a processor yields pyspark.sql.Row objects with the names of "
                f"their fields, not {shown(row)} ({type(row).__name__}). Write "
                f"yield Row({columns})."
            )
        named = dict(zip(fields, row, strict=False))
        return tuple([named.get(name) for name in self._names])

    def _fitted(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for number, fit in self._fits:
            if values[number] is not None:
                values[number] = fit(values[number])
        return tuple(values)


def gathered(result: Any, out: list[Any], method: str, uid: str) -> None:
    """Add what a method of a processor gave."""
    if result.__class__ is GeneratorType:
        out.extend(result)
        return
    # Of a DataFrame the names of its columns would be gathered.
    is_no_iterator = not isinstance(result, Iterable) or hasattr(result, "iloc")
    if is_no_iterator or isinstance(result, tuple | str | dict):
        raise SchemaError(
            f"operator {uid!r}: {method} gave {shown(result)} ({type(result).__name__}), which is "
            "no iterator. Yield what it emits; where it emits nothing, write return iter([])."
        )
    out.extend(result)
