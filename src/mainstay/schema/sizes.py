"""How many bytes rows take, and where to cut them: one Arrow array of texts holds 2 GiB at most.

Whatever puts rows together goes by bytes, not by their number alone. What is beyond
``ARRAY_BYTES`` is cut, or left in several chunks; only a single value cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ARRAY_BYTES = 2_000_000_000
"""The most that is put into one array or batch, unless a single row takes more."""

Sizes = npt.NDArray[np.int64]
Row = TypeVar("Row")
Made = TypeVar("Made")


class TooLargeError(Exception):
    """Values do not fit into one array; there may be fewer of them in each of several."""

    def __str__(self) -> str:
        return "the values of a batch take more than 2 GiB; make batches of fewer rows"


def in_one(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The array, unless it is more than one should hold."""
    if isinstance(array, pa.ChunkedArray) or (array.nbytes > ARRAY_BYTES and len(array) > 1):
        raise TooLargeError
    return array


def halved(
    rows: Sequence[Row],
    make: Callable[[Sequence[Row]], Made],
    parts_of: Callable[[Row], Sequence[Row]],
) -> Iterator[Made]:
    """What ``make`` makes of the rows, in as many pieces as it takes.

    ``parts_of`` makes several of a row that is too large by itself, or raises.
    """
    try:
        made = make(rows)
    except (TooLargeError, pa.ArrowCapacityError):
        parts = parts_of(rows[0]) if len(rows) == 1 else rows
        middle = len(parts) // 2
        yield from halved(parts[:middle], make, parts_of)
        yield from halved(parts[middle:], make, parts_of)
    else:
        yield made


def joined(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch of all rows, or several where one cannot hold them."""
    if len(batches) == 1:
        return list(batches)
    runs = runs_within(np.array([batch.nbytes for batch in batches], np.int64), ARRAY_BYTES)
    return [pa.concat_batches(batches[first:after]) for first, after in runs]


def combined(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; texts that are too many bytes for one become large ones."""
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
    if large is not None and column.nbytes > ARRAY_BYTES:
        column = column.cast(large)
    return column.combine_chunks()


def is_sized(arrow: pa.DataType) -> bool:
    """Whether values of a type take more or fewer bytes each."""
    if pa.types.is_struct(arrow):
        return any(is_sized(field.type) for field in arrow)
    return not pa.types.is_primitive(arrow) and not pa.types.is_decimal(arrow)


def runs_within(sizes: Sizes, most_bytes: int) -> list[tuple[int, int]]:
    """Runs of consecutive rows that take no more bytes, or are one row; each as start and end."""
    ends = np.cumsum(sizes)
    runs, start = [], 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        runs.append((start, end))
        start = end
    return runs


def cut(table: pa.Table) -> list[tuple[int, int]]:
    """Where a table is to be cut so that each piece fits into arrays; mostly one piece."""
    if table.nbytes <= ARRAY_BYTES:
        return [(0, table.num_rows)]
    return runs_within(row_sizes(table), ARRAY_BYTES)


def row_sizes(table: pa.Table) -> Sizes:
    """About how many bytes each row takes."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        if column.num_chunks:
            sizes += np.concatenate([value_sizes(chunk) for chunk in column.chunks])
    return sizes


def value_sizes(array: pa.Array) -> Sizes:
    """About how many bytes each value of an array takes."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _numbers(pc.binary_length(array)) + 4
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _list_sizes(array)
    if pa.types.is_struct(kind):
        sizes = np.zeros(len(array), np.int64)
        for number in range(kind.num_fields):
            sizes += value_sizes(array.field(number))
        return sizes
    return np.full(len(array), max(1, kind.bit_width // 8), np.int64)


def _list_sizes(array: pa.Array) -> Sizes:
    offsets = array.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        inner = value_sizes(array.keys.slice(first, last - first))
        inner = inner + value_sizes(array.items.slice(first, last - first))
    else:
        inner = value_sizes(array.values.slice(first, last - first))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(inner)])
    sizes: Sizes = np.diff(ends[offsets - first]) + 4
    return sizes


def _numbers(array: pa.Array) -> Sizes:
    numbers: Sizes = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
