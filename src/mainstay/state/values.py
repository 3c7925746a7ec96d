"""Value types: how a declared type keeps a value, and how it turns into columns and back.

``freeze`` checks a value against the type and returns the form that is kept, which nobody can
change from outside; ``thaw`` returns what a user may keep and change. For scalars both forms
are the value itself and ``thaw`` is None, so that hot paths can leave the call out.

::

    counts = ValueType.of("array<long>")
    kept = counts.freeze([1, 2])      # (1, 2)
    counts.thaw(kept).append(3)       # changes nothing that is kept
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstay.errors import StateTypeError
from mainstay.schema import format_type, row_class, to_type, values_of
from mainstay.schema.arrays import longs
from mainstay.schema.sizes import in_one
from mainstay.schema.transpose import shown
from mainstay.state.freezing import NAN, Freeze, freezer

PICKLED = "pickle"
_LONG = pa.int64()
_FEW = 32
"""Values of a column up to which to freeze them costs less than to ask whether that is needed."""
_PLAIN = (int, float, str, bytes, bool)


class Pickled:
    """A value of no declared type, kept as bytes so that nobody can change it."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def as_kept(value: Any) -> Any:
    """What freezes values that are frozen already, for one who has checked them himself."""
    return value


class Keys(list[Any]):
    """Keys that are frozen already: those of the current batch, as a function is given them."""


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
        return ValueType(arrow, format_type(arrow), freezer(arrow), _thawer(arrow))

    @property
    def is_plain(self) -> bool:
        """Whether the values of a column are the kept ones, as they are."""
        is_float: bool = pa.types.is_floating(self.arrow)
        return self.thaw is None and not is_float

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueType.of, (None if self.ddl == PICKLED else self.ddl,)

    def freeze_many(self, values: Iterable[Any]) -> list[Any]:
        """Every value frozen, None where it is None; arrays of numpy and Arrow are values, too."""
        if type(values) is Keys:
            return values
        if isinstance(values, pa.Array | pa.ChunkedArray) and values.type == self.arrow:
            return self.from_array(values)
        # Whatever else can be turned into a list at once knows how.
        make = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
        given: list[Any] = list(values) if make is None else make()
        is_exact = isinstance(values, np.ndarray) and self._holds(values.dtype)
        if is_exact or self._are_frozen(given):
            return given
        freeze = self.freeze
        return [None if value is None else freeze(value) for value in given]

    def _holds(self, dtype: np.dtype[Any]) -> bool:
        """Whether every number of an array is one that is kept as it is."""
        is_whole: bool = pa.types.is_integer(self.arrow)
        return is_whole and dtype.kind == "i" and dtype.itemsize * 8 <= self.arrow.bit_width

    def _are_frozen(self, values: list[Any]) -> bool:
        """Whether all are frozen already. Asking for all at once costs little."""
        kinds = set(map(type, values))
        if kinds == {int} and pa.types.is_integer(self.arrow):
            most: int = (1 << (self.arrow.bit_width - 1)) - 1
            return bool(max(values) <= most and min(values) >= -most - 1)
        is_string: bool = pa.types.is_string(self.arrow)
        return is_string and kinds == {str} and "".join(values).isascii()

    def to_array(self, kept: Sequence[Any]) -> pa.Array:
        """A column of kept values; None is null. ``TooLargeError`` if they are too many bytes."""
        if self.arrow == _LONG and (whole := longs(kept)) is not None:
            return whole
        if self.ddl == PICKLED:
            kept = [None if value is None else _pickle(value) for value in kept]
        return in_one(pa.array(kept, type=self.arrow))

    def from_array(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        """Kept values of a column; null is None."""
        if isinstance(column, pa.ChunkedArray):
            if column.num_chunks != 1:
                # Not combined: together they may be more than one array can hold.
                return list(chain.from_iterable(map(self.from_array, column.chunks)))
            column = column.chunk(0)
        values = values_of(column)
        if self.ddl == PICKLED:
            return [None if value is None else _kept_pickled(value) for value in values]
        if self.is_plain or (len(column) > _FEW and _are_kept(column)):
            return values
        if _has_plain_rows(self.arrow):
            return [None if rows is None else tuple(rows) for rows in values]
        freeze = self.freeze
        return [None if value is None else freeze(value) for value in values]


def _are_kept(column: pa.Array) -> bool:
    """Whether values of a column are the kept ones, as they are: reals and flat structs without
    any NaN, of which there is one that is kept."""
    if pa.types.is_struct(column.type):
        return all(map(_are_kept, column.flatten()))
    if pa.types.is_floating(column.type):
        return not pc.any(pc.is_nan(column)).as_py()
    return not pa.types.is_nested(column.type)


def _has_plain_rows(arrow: pa.DataType) -> bool:
    """Whether it is a list of structs of plain values: as those of a column are, rows are kept."""
    if not pa.types.is_list(arrow) or not pa.types.is_struct(arrow.value_type):
        return False
    types = [field.type for field in arrow.value_type]
    return not any(pa.types.is_nested(each) or pa.types.is_floating(each) for each in types)


def _pickle(kept: Any) -> bytes:
    return kept.data if isinstance(kept, Pickled) else pickle.dumps(kept, protocol=4)


def _kept_pickled(data: bytes) -> Any:
    value = pickle.loads(data)
    if type(value) not in _PLAIN:
        return Pickled(data)
    return NAN if value != value else value


def _freeze_pickled(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    try:
        return Pickled(pickle.dumps(value, protocol=4))
    except Exception as error:
        raise StateTypeError(
            f"{shown(value)} cannot be pickled ({error}). Declare a type for this state, or store "
            "a value that can be pickled."
        ) from error


def _thaw_pickled(kept: Any) -> Any:
    return pickle.loads(kept.data) if isinstance(kept, Pickled) else kept


def _thawer(arrow: pa.DataType) -> Freeze | None:
    """None where the kept form is immutable."""
    if pa.types.is_map(arrow):
        item = _thawer(arrow.item_type)
        return lambda kept: {name: _thawed(item, value) for name, value in kept}
    if pa.types.is_list(arrow):
        element = _thawer(arrow.value_type)
        return lambda kept: [_thawed(element, value) for value in kept]
    if pa.types.is_struct(arrow):
        thawers = [_thawer(field.type) for field in arrow]
        row = row_class(pa.schema(list(arrow)))
        # Rows are rebuilt also where no field is mutable: a restored row must be frozen field by
        # field, and from_array knows that by there being a thaw.
        return lambda kept: row([_thawed(t, v) for t, v in zip(thawers, kept, strict=True)])
    return None


def _thawed(thaw: Freeze | None, value: Any) -> Any:
    return value if thaw is None or value is None else thaw(value)
