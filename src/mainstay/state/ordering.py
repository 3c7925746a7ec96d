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

from mainstay.state.grouping import is_word, words_of

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
    first, *others = map(_numbers, columns, order)
    for other in others:
        first = _of_both(first, other)
    return first


def in_order(
    columns: Sequence[pa.Array], order: Sequence[By], groups: Ranks | None = None
) -> npt.NDArray[np.intp]:
    """The rows in this order, group by group where they have some. Of rows that are equal the
    earlier one is in front."""
    numbers = list(map(_numbers, columns, order))
    return np.lexsort([*reversed(numbers), *([] if groups is None else [groups])])


def are_before(
    first: Sequence[pa.Array], second: Sequence[pa.Array], order: Sequence[By]
) -> npt.NDArray[np.bool_]:
    """Which rows of a table come before the rows of another that stand beside them."""
    count = len(first[0])
    before, same = np.zeros(count, np.bool_), np.ones(count, np.bool_)
    for one, other, by in zip(first, second, order, strict=True):
        if _is_number(one) and _is_number(other):
            left, right = _numbers(one, by), _numbers(other, by)
        else:
            both = _numbers(pa.concat_arrays([one, other]), by)
            left, right = both[:count], both[count:]
        before |= same & (left < right)
        same &= left == right
    return before


def _is_number(column: pa.Array) -> bool:
    """Whether the values are numbers underneath that have their order."""
    is_signed = is_word(column.type) and not pa.types.is_unsigned_integer(column.type)
    return is_signed and not column.null_count


def _numbers(column: pa.Array, by: By) -> Ranks:
    """A number for each value, the lower the further in front."""
    if _is_number(column):
        words = words_of(column)
        # Not the negative number: the least one has none.
        return words if by.is_ascending else ~words
    numbers = ranks(column)
    is_null = numbers == 0
    numbers = numbers if by.is_ascending else -numbers
    numbers[is_null] = len(numbers) + 1
    return numbers


def _of_both(first: Ranks, second: Ranks) -> Ranks:
    order = np.lexsort((second, first))
    is_other = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    found = np.zeros(len(first), np.int64)
    found[order[1:]] = np.cumsum(is_other)
    return found
