"""Values of a fixed width as numbers in arrays: what a kernel and a table by slot have of them.

Whole numbers, dates and times have 64 bits there, floats are doubles, and booleans are booleans. A
value that is missing is any number, and an array beside says which are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
Form = Literal["int", "float", "bool", "str", "bytes", "date", "time", "zoned", "delta"]
"""What stands for a value: a number, or for texts and bytes a code."""
CODED = ("str", "bytes")
_EVERY = np.ones(1 << 18, np.bool_)
_EVERY.flags.writeable = False
_AS_IS = {pa.int64(): "int64", pa.float64(): "float64"}
"""Types whose values are numbers of these kinds, as they are."""
_IN_WORDS = {*_AS_IS, pa.timestamp("us"), pa.timestamp("us", "UTC")}
"""Types whose values are what stands for them here, word for word."""


@dataclass(frozen=True, slots=True)
class FieldUse:
    """One column of the values of a state: the value itself, or a field of a struct."""

    form: Form
    optional: bool


def form_of(arrow: pa.DataType) -> Form | None:
    """The form of the values of a type; None where no number stands for them."""
    if pa.types.is_signed_integer(arrow):
        return "int"
    if pa.types.is_float32(arrow) or pa.types.is_float64(arrow):
        return "float"
    if pa.types.is_boolean(arrow):
        return "bool"
    if pa.types.is_string(arrow):
        return "str"
    if pa.types.is_binary(arrow):
        return "bytes"
    if pa.types.is_date32(arrow):
        return "date"
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return "time" if arrow.tz is None else "zoned"
    return None


def fields_of(arrow: pa.DataType) -> tuple[FieldUse, ...] | None:
    """The columns of values of a type, which may be a struct; None where one has no form."""
    if not pa.types.is_struct(arrow):
        form = form_of(arrow)
        return None if form is None else (FieldUse(form, False),)
    found = []
    for field in arrow:
        form = form_of(field.type)
        if form is None:
            return None
        found.append(FieldUse(form, field.nullable))
    return tuple(found) or None


def dtype_of(form: Form) -> npt.DTypeLike:
    """The type of the array of a form."""
    if form == "float":
        return np.float64
    return np.bool_ if form == "bool" else np.int64


def numbers(column: pa.Array, form: Form) -> Array:
    """The values of a column, anything where it is null."""
    if not column.null_count and (own := _AS_IS.get(column.type)) is not None and len(column):
        return np.frombuffer(column.buffers()[1], own, len(column), 8 * column.offset)
    if form == "date":
        column = column.cast(pa.int32())
    target = {"float": pa.float64(), "bool": pa.bool_()}.get(form, pa.int64())
    if column.type != target:
        column = column.cast(target)
    if column.null_count:
        column = column.fill_null(False if form == "bool" else 0)
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def validity(column: pa.Array) -> Array:
    """Which values of a column are there: an array that nobody writes to."""
    if not column.null_count:
        count = len(column)
        return _EVERY[:count] if count <= len(_EVERY) else np.ones(count, np.bool_)
    valid: Array = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def column_of(values: Array, ok: Array | None, form: Form, arrow: pa.DataType) -> pa.Array:
    """Numbers as a column of a type; null where they are not there."""
    mask = None if ok is None or ok.all() else ~ok
    if mask is None and arrow in _IN_WORDS:
        # As they are: making an array of them costs several times as much.
        words = np.ascontiguousarray(values)
        return pa.Array.from_buffers(arrow, len(words), [None, pa.py_buffer(words)])
    if form == "date":
        values = values.astype(np.int32)
    elif pa.types.is_float32(arrow):
        with np.errstate(over="ignore"):
            # What is too large is infinite, as it is in a column that Arrow makes.
            values = values.astype(np.float32)
    column = pa.array(values, mask=mask)
    return column if column.type == arrow else column.cast(arrow)


def struct_of(columns: list[pa.Array], present: Array, arrow: pa.DataType) -> pa.Array:
    """A column of structs from those of their fields."""
    mask = None if present.all() else pa.array(~present)
    return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=mask)
