"""Intervals of time between the rows of two streams that are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstay.api.expressions import Column
from mainstay.api.windows import Duration, signed_microseconds
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.runtime import joins


@with_own_frames
@dataclass(frozen=True, slots=True)
class Interval:
    """From where to where the time of a right row may lie, seen from a left row's; both included.

    ``interval("-10s", "0s")`` are right rows that are up to ten seconds older, and none newer. The
    upper bound may be a column of the left rows, which says until when.
    """

    lower: Duration
    upper: Duration | Column

    def __post_init__(self) -> None:
        lower: Any = self.lower
        if isinstance(lower, Column):
            raise GraphError(
                f"interval({lower!r}, ...): only the upper bound may be a column. The lower "
                "one is counted from the time of the left row, which on= may name."
            )
        if isinstance(self.upper, Column):
            if self.upper.name is None:
                raise GraphError(
                    f"interval(..., {self.upper!r}) needs a column of the left rows, and not an "
                    "expression. Make it one with with_columns(...) before."
                )
            self.lower_us()
        else:
            self.fixed()

    def lower_us(self) -> int:
        """The lower bound in microseconds."""
        return signed_microseconds(self.lower, "interval(): lower")

    def fixed(self) -> joins.Interval:
        """The interval in microseconds."""
        upper_us = signed_microseconds(self.upper, "interval(): upper")
        found = joins.Interval(self.lower_us(), upper_us)
        if found.lower_us > found.upper_us:
            raise GraphError(
                f"interval({self.lower!r}, {self.upper!r}) ends before it begins. The lower bound "
                'comes first: interval("-10s", "0s") are rows of up to ten seconds before.'
            )
        return found


def interval(lower: Duration, upper: Duration | Column) -> Interval:
    """How much later than a left row, or earlier with a minus, the right rows are that it is joined
    with: ``interval("-10s", "5s")``. Both bounds belong to it.

    ``interval("0s", ms.col("expires"))`` ends when the left row says: at the time in a column of
    it, which is the time of the results then.
    """
    return Interval(lower, upper)
