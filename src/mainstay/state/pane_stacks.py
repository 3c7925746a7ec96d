"""Panes that come at one end and go at the other, merged without subtracting anything.

Two stacks hold them. New panes are merged into the *back*. When the oldest pane goes and the
*front* is empty, the back becomes the front: merged from its end, so that what is left of it after
each pane that goes is there already. A pane is merged a few times in its life, however many windows
it is in.

What is left would take memory for every pane and key, so the front is divided into blocks: it holds
what is left from each block on, and within the first block alone from each pane on. That is two
times the root of the number of panes.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column, DoesNotFitError
from mainstay.state.slots import Slots, slots_for
from mainstay.state.values import ValueType

_FEW_KEYS = 1 << 12
Keyed = tuple[pa.Array, list[Column]]


class Dense:
    """Accumulators by slot, and which slots any pane has. What is not there changes nothing."""

    __slots__ = ("columns", "present")

    def __init__(self, columns: list[Column], present: npt.NDArray[np.bool_]) -> None:
        self.columns = columns
        self.present = present

    @staticmethod
    def empty(parts: Sequence[Accumulating], size: int) -> Dense:
        return Dense([_empty(part, size) for part in parts], np.zeros(size, np.bool_))

    def grown(self, parts: Sequence[Accumulating], size: int) -> Dense:
        """The same with room for as many slots at least."""
        missing = size - len(self.present)
        if missing <= 0:
            return self
        more = Dense.empty(parts, missing)
        columns = [_joined(*pair) for pair in zip(self.columns, more.columns, strict=True)]
        return Dense(columns, np.concatenate([self.present, more.present]))

    def merged(self, parts: Sequence[Accumulating], newer: Dense) -> Dense:
        """Both; this one is the older."""
        older = self.grown(parts, len(newer.present))
        newer = newer.grown(parts, len(older.present))
        columns = zip(parts, older.columns, newer.columns, strict=True)
        merged = [part.merge(old, new) for part, old, new in columns]
        return Dense(merged, older.present | newer.present)


class Stacks:
    """The accumulators of all keys of some panes. ``read`` gives those of one of them again."""

    def __init__(
        self, key: ValueType, parts: Sequence[Accumulating], read: Callable[[int], Keyed]
    ) -> None:
        self._parts = parts
        self._read = read
        self._slots = slots_for(key)
        self._back = Dense.empty(parts, 0)
        self._back_panes: list[int] = []
        self._first: list[tuple[int, Dense]] = []
        """The panes of the first block, the oldest last, with what is left of it from there on."""
        self._later: list[tuple[list[int], Dense]] = []
        """The blocks behind it, the next one last, with what there is from there on."""
        self.live = 0

    @property
    def has_many_dead(self) -> bool:
        """Whether it takes much more memory than a new one would."""
        return len(self._slots) > 2 * self.live + _FEW_KEYS

    def add(self, pane: int) -> None:
        """A pane more, newer than those before."""
        self._back = self._with(self._back, pane)
        self._back_panes.append(pane)

    def _with(self, older: Dense, pane: int) -> Dense:
        """What was merged, which nobody else holds, with one pane more."""
        keys, columns = self._read(pane)
        slots = self._slots.of(keys)
        if len(self._slots) > len(older.present):
            older = older.grown(self._parts, max(len(self._slots), 2 * len(older.present)))
        kept = [_some(column, slots) for column in older.columns]
        try:
            for part, place, old, new in zip(
                self._parts, older.columns, kept, columns, strict=True
            ):
                _put(place, slots, part.merge(old, new))
        except DoesNotFitError as error:
            raise error.among(keys) from None
        older.present[slots] = True
        return older

    def remove(self, pane: int) -> None:
        """The oldest pane goes; it can still be read."""
        if not self._first:
            if not self._later:
                self._flip()
            panes, _ = self._later.pop()
            self._first = list(self._left(panes))
        gone, _ = self._first.pop()
        assert gone == pane, "panes go in the order in which they came"

    def _flip(self) -> None:
        """Let the back become the front."""
        panes, self._back_panes = self._back_panes, []
        size = max(1, math.isqrt(len(panes)))
        left: Dense | None = None
        for start in range((len(panes) - 1) // size * size, -1, -size):
            block = panes[start : start + size]
            merged = Dense.empty(self._parts, len(self._slots))
            for pane in block:
                merged = self._with(merged, pane)
            left = merged if left is None else self._both(merged, left)
            self._later.append((block, left))
        self._back = Dense.empty(self._parts, 0)

    def _left(self, panes: list[int]) -> list[tuple[int, Dense]]:
        """The panes of a block, the newest first, with what is left from each on."""
        found: list[tuple[int, Dense]] = []
        for pane in reversed(panes):
            alone = self._with(Dense.empty(self._parts, len(self._slots)), pane)
            left = alone if not found else self._both(alone, found[-1][1])
            found.append((pane, left))
        return found

    def _both(self, older: Dense, newer: Dense) -> Dense:
        try:
            return older.merged(self._parts, newer)
        except DoesNotFitError as error:
            raise error.among(self._slots.keys(np.arange(len(self._slots)))) from None

    def all(self) -> Keyed:
        """The keys of all panes, and what is kept for each."""
        merged: Dense | None = None
        for stack in (self._first, self._later):
            if stack:
                left = stack[-1][1]
                merged = left if merged is None else self._both(merged, left)
        merged = self._back if merged is None else self._both(merged, self._back)
        places = np.flatnonzero(merged.present)
        self.live = len(places)
        return self._slots.keys(places), [_some(column, places) for column in merged.columns]


def _empty(part: Accumulating, size: int) -> Column:
    values = np.empty(size, part.dtype)
    values.fill(part.empty)
    return values, np.zeros(size, np.bool_) if part.may_be_null else None


def _joined(one: Column, other: Column) -> Column:
    (values, valid), (more, more_valid) = one, other
    if valid is None and more_valid is not None:
        valid = np.ones(len(values), np.bool_)
    if valid is None or more_valid is None:
        return np.concatenate([values, more]), None
    return np.concatenate([values, more]), np.concatenate([valid, more_valid])


def _some(column: Column, places: Slots) -> Column:
    values, valid = column
    return values[places], None if valid is None else valid[places]


def _put(column: Column, places: Slots, new: Column) -> None:
    values, valid = column
    values[places] = new[0]
    if valid is not None:
        valid[places] = True if new[1] is None else new[1]
