"""The order of the values of columns as numbers, so that any type is compared by column.

Equal values have equal ranks. NaN is above every number. Null is below every value; among rows that
are put in an order it is behind everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class By:
    """A column that rows are put in order by, and whether its least value comes first."""

    column: int
    is_ascending: bool


def ranks(column: pa.Array) -> Ranks:
    """A number for each value, in the order of the values of this column."""
    found: npt.NDArray[np.uint64] = pc.rank(
        column, sort_keys="ascending", tiebreaker="dense"
    ).to_numpy(zero_copy_only=False)
    numbers = found.astype(np.int64)
    if column.null_count:
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def ranks_of_both(first: pa.Array, second: pa.Array) -> tuple[Ranks, Ranks]:
    """The ranks of two columns of one type in their common order."""
    both = ranks(pa.concat_arrays([first, second]))
    return both[: len(first)], both[len(first) :]


def places(columns: Sequence[pa.Array], order: Sequence[By]) -> Ranks:
    """A number for each row, the lower the further in front: by the first column, of rows that are
    equal there by the second, and so on. Rows that are equal in all have the same."""
    found: Ranks | None = None
    for column, by in zip(columns, order, strict=True):
        numbers = ranks(column)
        is_null = numbers == 0
        numbers = numbers if by.is_ascending else -numbers
        numbers[is_null] = len(numbers) + 1
        found = numbers if found is None else _of_both(found, numbers)
    assert found is not None
    return found


def places_of_both(
    first: Sequence[pa.Array], second: Sequence[pa.Array], order: Sequence[By]
) -> tuple[Ranks, Ranks]:
    """The places of the rows of two tables in their common order."""
    both = [pa.concat_arrays([one, other]) for one, other in zip(first, second, strict=True)]
    found = places(both, order)
    return found[: len(first[0])], found[len(first[0]) :]


def _of_both(first: Ranks, second: Ranks) -> Ranks:
    order = np.lexsort((second, first))
    is_other = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    found = np.zeros(len(first), np.int64)
    found[order[1:]] = np.cumsum(is_other)
    return found
