"""Batches as the pandas DataFrames that Spark's functions see, and theirs as batches.

A timestamp is a datetime64[ns] in the session's zone without naming it, an array an ndarray, a map
and a struct a dict. All rows of a slice become those of pandas at once; a DataFrame of a key is cut
out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import SchemaError
from mainstay.schema import format_type
from mainstay.schema.arrays import array_of, check_not_null
from mainstay.schema.transpose import shown
from mainstay.spark.processors.frame_parts import cut, values_of
from mainstay.spark.processors.row_values import in_zone
from mainstay.spark.processors.settings import ValueSettings
from mainstay.spark.processors.yielded import fitting

_NS = pa.timestamp("ns")
_MOST_KNOWN = 100
"""For how many ways to label columns it is remembered where they are."""


class FrameReader:
    """DataFrames of parts of a batch.

    ``is_wide`` has all numbers as int64 and float64. Spark makes DataFrames of a processor anew of
    Python's numbers, so a function that multiplies a column of type int does not overflow there.
    """

    def __init__(self, names: Sequence[str], settings: ValueSettings, *, is_wide: bool) -> None:
        self._names = pd.Index(list(names))
        self._settings = settings
        self._is_wide = is_wide
        self._most = 1
        self._flags: list[int] = []
        """Columns of booleans in which there are nulls, so that pandas has them as objects."""

    def whole(self, batch: pa.RecordBatch) -> pd.DataFrame:
        """All rows of a batch, made anew, so that a function may change what it gets.

        Of those that come next, ``chunks`` are cut out.
        """
        self._most = self._settings.rows_of(batch.num_rows, batch.nbytes)
        columns = [self._column(column) for column in batch.columns]
        self._flags = [
            number
            for number, column in enumerate(columns)
            if pa.types.is_boolean(column.type) and column.null_count
        ]
        if not columns:
            return pd.DataFrame(index=range(batch.num_rows))
        made = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        frame: pd.DataFrame = made.to_pandas(date_as_object=True, maps_as_pydicts="strict")
        frame.columns = self._names
        return frame

    def chunks(self, frame: pd.DataFrame, start: int, end: int) -> Iterator[pd.DataFrame]:
        """Some rows as one DataFrame, or several where they are many, each numbered from 0 on."""
        for first in range(start, end, self._most):
            part = cut(frame, first, min(first + self._most, end))
            yield self._with_flags(part) if self._flags else part

    def _with_flags(self, part: pd.DataFrame) -> pd.DataFrame:
        """A null of one key must not make objects of the booleans of another, of which ``~`` gives
        numbers."""
        part = part.copy()
        for number in self._flags:
            column = part.iloc[:, number]
            if column.notna().all():
                part.isetitem(number, column.astype(bool))
        return part

    def _column(self, column: pa.Array) -> pa.Array:
        if pa.types.is_timestamp(column.type):
            return self._naive(column)
        if pa.types.is_nested(column.type):
            return column.cast(in_zone(column.type, self._settings.zone_name))
        return _widened(column) if self._is_wide else column

    def _naive(self, column: pa.Array) -> pa.Array:
        if column.type.tz is not None:
            zoned = column.cast(pa.timestamp("us", tz=self._settings.zone_name))
            column = pc.local_timestamp(zoned)
        try:
            return column.cast(_NS)
        except pa.ArrowInvalid:
            return column  # beyond the years of nanoseconds


def _widened(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.float64()) if pa.types.is_floating(column.type) else column


class FrameWriter:
    """What a function yields, as batches of the declared schema."""

    def __init__(self, schema: pa.Schema, uid: str, settings: ValueSettings) -> None:
        self._schema = schema
        self._where = f"operator {uid!r}"
        self._settings = settings
        self._known: dict[tuple[Any, ...], list[int]] = {}
        zone = None if settings.is_utc else settings.zone
        self._fits = {field.name: fitting(field.type, zone) for field in schema}

    def batches(self, frames: list[Any]) -> list[pa.RecordBatch]:
        """The DataFrames of one slice, as one batch."""
        columns: list[list[Any]] = [[] for _ in self._schema]
        for frame in frames:
            if not isinstance(frame, pd.DataFrame):
                raise self._no_frame(frame)
            if len(frame):
                for parts, position in zip(columns, self._positions(frame), strict=True):
                    parts.append(values_of(frame, position))
        if not columns or not columns[0]:
            return []
        fields = zip(columns, self._schema, strict=True)
        arrays = [self._array(parts, field) for parts, field in fields]
        return [pa.RecordBatch.from_arrays(arrays, schema=self._schema)]

    def _no_frame(self, given: Any) -> SchemaError:
        return SchemaError(
            f"{self._where}: Invalid return type: a function in pandas yields pandas.DataFrame "
            f"objects, not {shown(given)} ({type(given).__name__})."
        )

    def _positions(self, frame: pd.DataFrame) -> list[int]:
        """Where the columns of the schema are in a DataFrame. Functions label them alike in most
        calls, so it is found once."""
        labels = tuple(frame.columns.tolist())
        found = self._known.get(labels)
        if found is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            found = self._known[labels] = self._placed(labels)
        return found

    def _placed(self, labels: tuple[Any, ...]) -> list[int]:
        """By the names of columns, or by their places where they have none."""
        if any(isinstance(label, str) for label in labels):
            return [self._named(labels, name) for name in self._schema.names]
        if len(labels) < len(self._schema):
            raise SchemaError(
                f"{self._where}: a DataFrame has {len(labels)} columns, and the schema "
                f"has {len(self._schema)}: {', '.join(self._schema.names)}."
            )
        return list(range(len(self._schema)))

    def _named(self, labels: tuple[Any, ...], name: str) -> int:
        count = labels.count(name)
        if count == 1:
            return labels.index(name)
        how_many = "no column" if not count else f"{count} columns"
        raise KeyError(
            f"{self._where}: a DataFrame has {how_many} {name!r}; it has "
            f"{', '.join(map(repr, labels))}."
        )

    def _array(self, parts: list[Any], field: pa.Field) -> pa.Array:
        place = f"{self._where}, column {field.name!r}"
        arrays = [self._one(pd.Series(column), field, place) for column in _joined(parts)]
        found = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        check_not_null(found, field, place)
        return found

    def _one(self, column: pd.Series, field: pa.Field, place: str) -> pa.Array:
        try:
            return self._converted(column, field, place)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise SchemaError(
                f"{place}: Failed to convert the value of a column of type {column.dtype}: it does "
                f"not fit the declared type {format_type(field.type)} ({error}); convert it or "
                "change the declaration"
            ) from error

    def _converted(self, column: pd.Series, field: pa.Field, place: str) -> pa.Array:
        arrow = field.type
        if pa.types.is_timestamp(arrow) and isinstance(column.dtype, pd.DatetimeTZDtype):
            column = column.dt.tz_convert("UTC")
        elif pa.types.is_timestamp(arrow) and column.dtype.kind == "M" and arrow.tz is not None:
            column = column.dt.tz_localize(self._settings.zone_name)
        if column.dtype == object or pa.types.is_nested(arrow) or pa.types.is_decimal(arrow):
            values = [None if _is_missing(each) else each for each in column.tolist()]
            fit = self._fits[field.name]
            if fit is not None:
                values = [None if each is None else fit(each) for each in values]
            return array_of(values, arrow, place)
        return pa.Array.from_pandas(column, type=arrow)


def _joined(parts: list[Any]) -> list[Any]:
    """Columns of DataFrames as one, where they are of one type of numpy's."""
    types = {part.dtype for part in parts}
    if len(parts) == 1 or len(types) > 1 or not isinstance(next(iter(types)), np.dtype):
        # Together, whole numbers would become those that are not, and lose digits.
        return parts
    return [np.concatenate([np.asarray(part) for part in parts])]


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NaT or value is pd.NA or _is_nan(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value
