"""Windows with fixed bounds: which slices they are made of, and which windows a slice is in.

All bounds of such windows lie on a grid, whose distance is the *slice*. A row falls into exactly
one slice, so it is counted once however many windows it is in; a window is put together from its
slices when it is complete. A slice, as a window, is known by its end, and does not contain it.

Times are whole microseconds since 1970 in UTC, and may lie before that.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
AnyTime = TypeVar("AnyTime", int, Times)


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Windows of one size, of which one ends every ``every_us``.

    Where they *cumulate*, all that end within one ``size_us`` have one start, at its beginning.
    """

    size_us: int
    every_us: int
    offset_us: int = 0
    cumulates: bool = False

    def __str__(self) -> str:
        """As messages name them."""
        kind = "cumulating windows" if self.cumulates else "windows"
        every = "" if self.every_us == self.size_us else f" every {self.every_us / 1e6:g} s"
        offset = f", offset {self.offset_us / 1e6:g} s" if self.offset_us else ""
        return f"{kind} of {self.size_us / 1e6:g} s{every}{offset}"

    @property
    def slice_us(self) -> int:
        """How long a slice is."""
        return math.gcd(self.size_us, self.every_us)

    @property
    def slices(self) -> int:
        """Of how many slices a window is made at most."""
        return self.size_us // self.slice_us

    @property
    def has_gaps(self) -> bool:
        """Whether there are times that no window contains."""
        return self.every_us > self.size_us

    def slice_end(self, time: AnyTime) -> AnyTime:
        """The end of the slice that a time is in."""
        # Not by the remainder, for which numpy has nothing as quick.
        return ((time - self.offset_us) // self.slice_us + 1) * self.slice_us + self.offset_us

    def first_end(self, slice_end: AnyTime) -> AnyTime:
        """The end of the first window that a slice is in. It is in none if that is beyond
        ``last_end``."""
        if self.cumulates:
            return slice_end
        return slice_end + (self.offset_us + self.size_us - slice_end) % self.every_us

    def last_end(self, slice_end: AnyTime) -> AnyTime:
        """The end of the last window that a slice is in."""
        start = slice_end - self.slice_us
        if self.cumulates:
            return start - (start - self.offset_us) % self.size_us + self.size_us
        return start - (start - self.offset_us) % self.every_us + self.size_us

    def start(self, end: int) -> int:
        """The start of the window that ends then."""
        if not self.cumulates:
            return end - self.size_us
        last = end - self.slice_us
        return last - (last - self.offset_us) % self.size_us

    def is_within(self, slice_ends: Times) -> npt.NDArray[np.bool_]:
        """Which slices are in any window."""
        return self.first_end(slice_ends) <= self.last_end(slice_ends)

    def ends(self, panes: Sequence[int], after: int, until: int) -> Iterator[int]:
        """The ends of windows beyond ``after`` and up to ``until`` that have one of some slices in
        them, in order. The slices are in order, too."""
        end = after
        while True:
            following = self._next_end(panes, end)
            if following is None or following > until:
                return
            yield following
            end = following

    def _next_end(self, panes: Sequence[int], after: int) -> int | None:
        """The end of the first window beyond a time that has one of some slices in it."""
        # The first slice that may be in a window which ends later.
        first = bisect_right(panes, after, key=self.last_end)
        if first == len(panes):
            return None
        end = self.first_end(panes[first])
        if end <= after:
            end += ((after - end) // self.every_us + 1) * self.every_us
        return end

    def of_window(self, panes: Sequence[int], end: int) -> Sequence[int]:
        """Those of some slices, in order, that are in the window which ends then."""
        return panes[bisect_right(panes, self.start(end)) : bisect_right(panes, end)]
