"""The panes of windows put together: of one pane as they are, of several merged.

A window that slides shares most of its panes with the one before. Where sums of whole numbers are
all there is, the one before is taken, the new pane added, and the pane that leaves is subtracted;
otherwise two stacks do the same without subtracting. Windows that cumulate only add. What is
emitted more than once is merged anew each time.

What is kept here is memory alone, and made again from the panes after a restore, or when a row has
come into a pane that was merged already.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mainstay.runtime.windows import FixedWindows, Times
from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.columns import PanesHandle
from mainstay.state.pane_merging import Merged, Sums, can_subtract
from mainstay.state.pane_stacks import Stacks
from mainstay.state.values import ValueType

Keyed = tuple[pa.Array, list[Column]]


class WindowPanes:
    """The panes of one operator, as its windows see them. ``once`` says that each window is asked
    for once, in their order, and that a pane goes with the last one that it is in."""

    def __init__(
        self,
        windows: FixedWindows,
        state: PanesHandle,
        key: ValueType,
        parts: Sequence[Accumulating],
        *,
        once: bool,
    ) -> None:
        self._windows = windows
        self._state = state
        self._key = key
        self._parts = parts
        self._goes_on = once and windows.slices > 1
        self._running: Merged | Sums | Stacks | None = None
        self._included: set[int] = set()
        self._newest: int | None = None
        """The newest pane that is included."""

    def merged(self, end: int, panes: Sequence[int]) -> Keyed:
        """All keys of the window that ends then, of some panes, and what is kept for each."""
        own = self._windows.of_window(panes, end)
        if len(own) == 1 and not self._goes_on:
            return self._state.pane(own[0])
        if not self._goes_on:
            return self._of(own).all()
        running = self._go_on(own)
        if isinstance(running, Sums) and running.may_overflow:
            # One by one, which refuses a sum that does not fit.
            self._reset()
            return self._of(own).all()
        return running.all()

    def some(self, end: int, panes: Sequence[int], keys: Sequence[pa.Array]) -> Keyed:
        """The same for some of the keys."""
        merged = self._of(self._windows.of_window(panes, end))
        places = np.unique(np.concatenate([merged.places(each) for each in keys]))
        return merged.at(places)

    def changed(self, slices: Times) -> None:
        """Rows have come into some panes."""
        if self._newest is not None and int(slices.min()) <= self._newest:
            self._reset()

    def drop(self, pane: int) -> None:
        """Forget a pane with all its keys."""
        if pane in self._included:
            self._included.discard(pane)
            if not self._included or isinstance(self._running, Merged | None):
                self._reset()
            elif isinstance(self._running, Stacks):
                self._running.remove(pane)
            else:
                self._running.remove(*self._state.pane(pane))
        self._state.drop(pane)

    def _of(self, panes: Sequence[int]) -> Merged:
        merged = Merged(self._key, self._parts)
        for pane in panes:
            merged.add(*self._state.pane(pane))
        return merged

    def _new(self) -> Merged | Sums | Stacks:
        if self._windows.cumulates:
            return Merged(self._key, self._parts)
        if can_subtract(self._parts):
            return Sums(self._key, self._parts)
        return Stacks(self._key, self._parts, self._state.pane)

    def _go_on(self, panes: Sequence[int]) -> Merged | Sums | Stacks:
        """What was merged so far with the panes that have come."""
        if self._running is None or self._running.has_many_dead:
            self._reset()
            self._running = self._new()
        known = 0 if self._newest is None else bisect_right(panes, self._newest)
        for pane in panes[known:]:
            if isinstance(self._running, Stacks):
                self._running.add(pane)
            else:
                self._running.add(*self._state.pane(pane))
            self._included.add(pane)
            self._newest = pane
        return self._running

    def _reset(self) -> None:
        self._running = None
        self._included = set()
        self._newest = None
