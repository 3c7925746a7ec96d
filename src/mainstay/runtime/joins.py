"""What a join takes and gives: its two sides, their interval, and the columns that it emits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.spec import KeySpec
from mainstay.state.info import StateInfo
from mainstay.state.kinds import ROWS
from mainstay.state.values import ValueType

Times = npt.NDArray[np.int64]
How = Literal["inner", "left", "right", "full", "semi", "anti"]
LEFT, RIGHT = 0, 1
SIDES = ("left", "right")
NUMBER = "row_number"
PANE = ValueType.of("long")

KEY = -1
"""Stands for the key where a column of the output comes from."""


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One input: where its key and its time are, and which of its columns are kept.

    ``time`` is None where a join goes by no time. ``shift_us`` is added to what it holds. ``end``
    is the column that says until when a row matches, where rows say that themselves.
    """

    key: KeySpec
    carried: pa.Schema
    kept: tuple[int, ...]
    time: int | None = None
    shift_us: int = 0
    end: int | None = None

    @property
    def fields(self) -> list[pa.Field]:
        return [self.carried.field(number) for number in self.kept]


@dataclass(frozen=True, slots=True)
class JoinShape:
    """Both sides, how they are joined, and the output.

    A column of the output is ``(side, number)`` of a kept column, or ``(KEY, number)`` of a column
    of the key, which is that of whichever side has a row.
    """

    how: How
    sides: tuple[JoinSide, JoinSide]
    columns: tuple[tuple[int, int], ...]
    schema: pa.Schema

    def pads(self, side: int) -> bool:
        """Whether rows of a side that match nothing are emitted in the end."""
        return self.how in (("left", "full", "anti"), ("right", "full"))[side]

    def is_flagged(self, side: int) -> bool:
        """Whether it must be known of a row that is kept whether it has matched."""
        return self.pads(side) or (self.how == "semi" and side == LEFT)

    def rows_state(self, side: int) -> StateInfo:
        """The rows of a side, with a number where one is to be found again."""
        fields = [(field.name, field.type) for field in self.sides[side].fields]
        if self.is_flagged(side):
            fields.append((number_name(self.sides[side].fields), pa.int64()))
        return rows_info(SIDES[side], fields)

    def plain_state(self, side: int) -> StateInfo:
        """The rows of a side, where none needs to be found again."""
        fields = [(field.name, field.type) for field in self.sides[side].fields]
        return rows_info(SIDES[side], fields)

    def matched_state(self, side: int) -> StateInfo:
        """The numbers of those rows that have matched."""
        return rows_info(f"{SIDES[side]}_matched", [(NUMBER, pa.int64())])


@dataclass(frozen=True, slots=True)
class Interval:
    """From where to where the time of a right row may lie, seen from a left one; both included."""

    lower_us: int
    upper_us: int

    def reach(self, side: int) -> int:
        """How much later than a row the last one that it matches may be."""
        return self.upper_us if side == LEFT else -self.lower_us

    def life(self, side: int) -> int:
        """For how long after its time a row is not late: while it can match."""
        return max(self.reach(side), 0)

    def bounds(self, side: int, times: Times) -> tuple[Times, Times]:
        """From when to when what rows of a side match lies."""
        if side == LEFT:
            return times + self.lower_us, times + self.upper_us
        return times - self.upper_us, times - self.lower_us

    def pane_us(self, *, is_padded: bool) -> int:
        """How long panes are. Shorter ones let rows without a match go out sooner."""
        length = self.upper_us - self.lower_us
        return min(max(length // 4 if is_padded else length, 1_000_000), 86_400_000_000)


def rows_info(name: str, fields: Sequence[tuple[str, pa.DataType]]) -> StateInfo:
    """Rows of these columns by pane."""
    return StateInfo(name, ROWS, ValueType.of(pa.struct(fields)), namespace=PANE)


def number_name(fields: Sequence[pa.Field]) -> str:
    """A name for the number of a row that is no column's."""
    name = NUMBER
    while any(field.name == name for field in fields):
        name += "_"
    return name
