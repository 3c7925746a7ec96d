"""Codes: a small integer for each row of a column, equal where the values are equal.

Grouping, merging and looking up begin with them: everything after is work on integers. All of it
is native column work that lets other threads run. This is a hot file (benchmarks/record_path.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]
_RADIX = 1 << 16


def codes_of(column: pa.Array) -> Codes:
    """A code below the number of rows for each row. Null is a value like others.

    As everywhere with keys, -0.0 is 0.0, every NaN is the same, and a struct that is null is not
    the one whose fields are.
    """
    if pa.types.is_struct(column.type):
        nulls: npt.NDArray[Any] = column.is_null().to_numpy(zero_copy_only=False)
        codes = nulls.astype(np.int64)
        for field in column.flatten():
            codes = paired(codes, codes_of(field))
        return codes
    if pa.types.is_floating(column.type):
        # Adding zero turns -0.0 into 0.0, which is the same key, and changes nothing else.
        column = _with_one_nan(pc.add(column, pa.scalar(0.0, column.type)))
    return _encoded(column)


def _with_one_nan(column: pa.Array) -> pa.Array:
    """The column with one bit pattern for NaN: 0/0 gives another one than ``float("nan")``."""
    is_nan = pc.is_nan(column)
    if not pc.any(is_nan).as_py():
        return column
    return pc.if_else(is_nan.fill_null(False), pa.scalar(np.nan, column.type), column)


def paired(first: Codes, second: Codes) -> Codes:
    """Codes for pairs of codes."""
    return _encoded(pa.array(first * (int(second.max(initial=0)) + 1) + second))


def _encoded(column: pa.Array) -> Codes:
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    indices: npt.NDArray[Any] = encoded.indices.to_numpy(zero_copy_only=False)
    return indices.astype(np.int64)


def grouped(codes: Codes) -> tuple[npt.NDArray[np.intp], Codes]:
    """The rows in an order that puts equal codes together, and where each group begins and ends.

    Rows of a group keep their order. Group ``i`` is ``order[bounds[i]:bounds[i + 1]]``; there is
    one for each code that occurs.
    """
    small = int(codes.max(initial=0)) < _RADIX
    # In 16 bits numpy sorts with a radix sort.
    order = np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")
    counts = np.bincount(codes)
    ends = np.cumsum(counts[counts > 0])
    return order, np.concatenate([np.zeros(1, np.int64), ends])
