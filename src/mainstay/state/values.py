"""Value types: how a declared type keeps a value, and how it turns into columns and back.

``freeze`` checks a value against the type and returns the form that is kept, which nobody can
change from outside; ``thaw`` returns what a user may keep and change. For scalars both forms
are the value itself and ``thaw`` is None, so that hot paths can leave the call out.

::

    counts = ValueType.of("array<long>")
    kept = counts.freeze([1, 2])      # (1, 2)
    counts.thaw(kept).append(3)       # changes nothing that is kept

This is a hot file: ``freeze`` of a scalar runs once per state write (benchmarks/state_access.py).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema import format_type, row_class, to_type, values_of

Freeze = Callable[[Any], Any]
PICKLED = "pickle"
_PLAIN = (int, float, str, bytes, bool)
_SINGLE = struct.Struct("f")
_NAN = float("nan")
"""The one NaN: a dictionary finds a NaN only by identity, so keys must share one object."""


class Pickled:
    """A value of no declared type, kept as bytes so that nobody can change it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


@dataclass(frozen=True, slots=True, eq=False)
class ValueType:
    """A state's type: its columns, its name in DDL, and the two conversions."""

    arrow: pa.DataType
    ddl: str
    freeze: Freeze
    thaw: Freeze | None

    @staticmethod
    def of(declared: Any) -> ValueType:
        """The value type of a DDL string, an Arrow or a PySpark type; pickled where None."""
        if declared is None:
            return ValueType(pa.binary(), PICKLED, _freeze_pickled, _thaw_pickled)
        arrow = to_type(declared)
        ddl = format_type(arrow)
        return ValueType(arrow, ddl, _freezer(arrow, ddl), _thawer(arrow))

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueType.of, (None if self.ddl == PICKLED else self.ddl,)

    def to_array(self, kept: Sequence[Any]) -> pa.Array:
        """A column of kept values; None is null."""
        if self.ddl == PICKLED:
            kept = [None if value is None else _pickle(value) for value in kept]
        return pa.array(kept, type=self.arrow)

    def from_array(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        """Kept values of a column; null is None."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        values = values_of(column)
        if self.ddl == PICKLED:
            return [v if v is None else _freeze_pickled(pickle.loads(v)) for v in values]
        if self.thaw is None and not pa.types.is_floating(self.arrow):
            return values
        freeze = self.freeze
        return [None if value is None else freeze(value) for value in values]


def _pickle(kept: Any) -> bytes:
    return kept.data if isinstance(kept, Pickled) else pickle.dumps(kept, protocol=4)


def _freeze_pickled(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    try:
        return Pickled(pickle.dumps(value, protocol=4))
    except Exception as error:
        raise StateTypeError(
            f"{value!r} cannot be pickled ({error}). Declare a type for this state, or store a "
            "value that can be pickled."
        ) from error


def _thaw_pickled(kept: Any) -> Any:
    return pickle.loads(kept.data) if isinstance(kept, Pickled) else kept


def _misfit(value: Any, ddl: str) -> StateTypeError:
    return StateTypeError(
        f"{value!r} ({type(value).__name__}) does not fit the declared type {ddl}. Convert it "
        "before storing it, or declare another type."
    )


def _freezer(arrow: pa.DataType, ddl: str) -> Freeze:
    if pa.types.is_integer(arrow):
        return _integer(arrow.bit_width, ddl)
    if pa.types.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale, ddl)
    if pa.types.is_floating(arrow):
        return _floating(ddl, single=arrow.bit_width == 32)
    if pa.types.is_timestamp(arrow):
        return _timestamp(ddl, zoned=arrow.tz is not None)
    if pa.types.is_date(arrow):
        return _date(ddl)
    if pa.types.is_struct(arrow):
        return _struct(arrow, ddl)
    if pa.types.is_map(arrow):
        return _map(arrow, ddl)
    if pa.types.is_list(arrow):
        return _list(arrow, ddl)
    exact = {pa.string(): str, pa.binary(): bytes, pa.bool_(): bool}
    return _exactly(exact[arrow], ddl)


def _integer(bits: int, ddl: str) -> Freeze:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def freeze(value: Any) -> Any:
        if value.__class__ is not int:
            if isinstance(value, bool | float | str) or not hasattr(value, "__index__"):
                raise _misfit(value, ddl)
            value = value.__index__()
        if low <= value <= high:
            return value
        raise _misfit(value, ddl)

    return freeze


def _floating(ddl: str, *, single: bool) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is not float:
            if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
                raise _misfit(value, ddl)
            value = float(value)
        if value != value:
            return _NAN
        # What is read before a snapshot and after a restore must be the same number.
        return _SINGLE.unpack(_SINGLE.pack(value))[0] if single else value

    return freeze


def _exactly(cls: type, ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if value.__class__ is cls:
            return value
        if isinstance(value, cls) or (cls is bytes and isinstance(value, bytearray | memoryview)):
            return cls(value)
        raise _misfit(value, ddl)

    return freeze


def _decimal(precision: int, scale: int, ddl: str) -> Freeze:
    unit = Decimal(1).scaleb(-scale)

    def freeze(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, Decimal | int):
            raise _misfit(value, ddl)
        try:
            with localcontext() as context:
                context.prec = precision
                fitted = Decimal(value).quantize(unit)
        except InvalidOperation:
            raise _misfit(value, ddl) from None
        if fitted != value:
            raise _misfit(value, ddl)
        return fitted

    return freeze


def _timestamp(ddl: str, *, zoned: bool) -> Freeze:
    def freeze(value: Any) -> Any:
        if not isinstance(value, datetime):
            raise _misfit(value, ddl)
        if value.tzinfo is None:
            return value.replace(tzinfo=timezone.utc) if zoned else value
        utc = value.astimezone(timezone.utc)
        return utc if zoned else utc.replace(tzinfo=None)

    return freeze


def _date(ddl: str) -> Freeze:
    def freeze(value: Any) -> Any:
        if isinstance(value, date) and not isinstance(value, datetime):
            return value
        raise _misfit(value, ddl)

    return freeze


def _optional(freeze: Freeze) -> Freeze:
    return lambda value: None if value is None else freeze(value)


def _list(arrow: pa.ListType, ddl: str) -> Freeze:
    item = _optional(_freezer(arrow.value_type, format_type(arrow.value_type)))

    def freeze(value: Any) -> Any:
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise _misfit(value, ddl)
        return tuple(item(element) for element in value)

    return freeze


def _map(arrow: pa.MapType, ddl: str) -> Freeze:
    key = _freezer(arrow.key_type, format_type(arrow.key_type))
    item = _optional(_freezer(arrow.item_type, format_type(arrow.item_type)))

    def freeze(value: Any) -> Any:
        if isinstance(value, Mapping):
            value = value.items()
        elif isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise _misfit(value, ddl)
        return tuple((key(name), item(element)) for name, element in value)

    return freeze


def _struct(arrow: pa.StructType, ddl: str) -> Freeze:
    fields = [arrow.field(index) for index in range(arrow.num_fields)]
    names = [field.name for field in fields]
    known = set(names)
    freezers = [_optional(_freezer(field.type, format_type(field.type))) for field in fields]
    row = row_class(pa.schema(fields))

    def freeze(value: Any) -> Any:
        if isinstance(value, Mapping):
            if not known.issuperset(value):
                raise _misfit(value, ddl)
            value = [value.get(name) for name in names]
        elif not isinstance(value, tuple | list) or len(value) != len(names):
            raise _misfit(value, ddl)
        return row(freezer(item) for freezer, item in zip(freezers, value, strict=True))

    return freeze


def _thawer(arrow: pa.DataType) -> Freeze | None:
    """None where the kept form is already nobody's to change."""
    if pa.types.is_map(arrow):
        key, item = _thawer(arrow.key_type), _thawer(arrow.item_type)
        return lambda kept: {_thawed(key, name): _thawed(item, value) for name, value in kept}
    if pa.types.is_list(arrow):
        element = _thawer(arrow.value_type)
        return lambda kept: [_thawed(element, value) for value in kept]
    if pa.types.is_struct(arrow):
        fields = [arrow.field(index) for index in range(arrow.num_fields)]
        thawers = [_thawer(field.type) for field in fields]
        row = row_class(pa.schema(fields))
        # Rows are rebuilt also where no field is mutable: from_array must turn dicts into rows,
        # and knows structs by their having a thaw.
        return lambda kept: row(_thawed(t, v) for t, v in zip(thawers, kept, strict=True))
    return None


def _thawed(thaw: Freeze | None, value: Any) -> Any:
    return value if thaw is None or value is None else thaw(value)
