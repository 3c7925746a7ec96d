"""Packing: a column of any type as fields of a structured array, so that rows move as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.partials import array_of_numbers, dtype_of, numbers_of, objects
from mainstay.state.values import ValueType

Packed = npt.NDArray[Any]


class Packing:
    """Where the values of a type lie: a field for them, or several for a struct, and a flag."""

    def __init__(self, arrow: pa.DataType, name: str) -> None:
        self.arrow = arrow
        self.name = name
        self._flag = f"{name}?"
        self._parts = (
            [Packing(field.type, f"{name}.{number}") for number, field in enumerate(arrow)]
            if pa.types.is_struct(arrow)
            else []
        )
        self.dtype = dtype_of(arrow)
        """None where the values are objects."""
        self._values = ValueType.of(arrow)

    def fields(self) -> list[tuple[str, Any]]:
        flag: list[tuple[str, Any]] = [(self._flag, np.bool_)]
        if self._parts:
            return flag + [field for part in self._parts for field in part.fields()]
        return [*flag, (self.name, np.dtype(object) if self.dtype is None else self.dtype)]

    def put(self, packed: Packed, column: pa.Array) -> None:
        """Write a column into its fields."""
        packed[self._flag] = column.is_valid().to_numpy(zero_copy_only=False)
        if self._parts:
            for part, child in zip(self._parts, column.flatten(), strict=True):
                part.put(packed, child)
        elif self.dtype is not None:
            packed[self.name] = numbers_of(column, self.dtype, self.dtype.type(0))[0]
        else:
            packed[self.name] = objects(self._values.from_array(column))

    def get(self, packed: Packed) -> pa.Array:
        """The column that its fields hold."""
        valid = packed[self._flag]
        if self._parts:
            arrays = [part.get(packed) for part in self._parts]
            return struct_of(arrays, self.arrow, valid)
        if self.dtype is not None:
            return array_of_numbers((packed[self.name], valid), self.arrow)
        values = packed[self.name].copy()
        # Fresh memory holds zeros, which are no values of the type.
        values[~valid] = None
        return self._values.to_array(values.tolist())


def struct_of(
    arrays: list[pa.Array], arrow: pa.DataType, valid: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """A column of structs, null where it is not valid."""
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.StructArray.from_arrays(arrays, fields=list(arrow), mask=mask)


def side_by_side(batch: pa.RecordBatch, columns: tuple[int, ...], arrow: pa.DataType) -> pa.Array:
    """One column as it is, or several as a struct, whichever has the type."""
    arrays = [batch.column(number) for number in columns]
    if len(arrays) == 1 and arrays[0].type == arrow:
        return arrays[0]
    return pa.StructArray.from_arrays(arrays, fields=list(arrow))
