"""Merging panes: the accumulators of a window from those of its slices, key by key.

``Merged`` takes pane after pane. Where all its accumulators are whole numbers that are added up, a
pane can be taken out again, so that a window that slides costs two panes and not all of its own.
Nothing else is subtracted: what is left of floating numbers would depend on what was there before.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column, DoesNotFitError
from mainstay.state.slots import Slots, slots_for
from mainstay.state.values import ValueType

_FIRST_CAPACITY = 1 << 10
_FEW_KEYS = 1 << 12
_LONG_LIMIT = 1 << 63


def can_subtract(parts: Sequence[Accumulating]) -> bool:
    """Whether what was added can be taken out of all accumulators again, exactly."""
    return all(
        part.accumulator.how in ("sum", "count") and part.dtype.kind == "i" for part in parts
    )


class _ByKey:
    """Accumulators of all keys of some panes, and in how many of them each key is."""

    def __init__(self, key: ValueType, parts: Sequence[Accumulating]) -> None:
        self._key = key
        self._parts = parts
        self._slots = slots_for(key)
        self._panes_of = np.zeros(0, np.int32)
        self._columns: list[Column] = [
            (np.empty(0, part.dtype), np.zeros(0, np.bool_) if part.may_be_null else None)
            for part in parts
        ]
        self.live = 0
        """How many keys are in any of the panes."""

    @property
    def has_many_dead(self) -> bool:
        """Whether it takes much more memory than a new one would."""
        return len(self._slots) > 2 * self.live + _FEW_KEYS

    def _entered(self, keys: pa.Array) -> Slots:
        slots = self._slots.of(keys)
        self._grow()
        before = self._panes_of[slots]
        self.live += int(np.count_nonzero(before == 0))
        self._panes_of[slots] = before + 1
        return slots

    def _grow(self) -> None:
        before = len(self._panes_of)
        if len(self._slots) <= before:
            return
        capacity = max(len(self._slots), 2 * before, _FIRST_CAPACITY)
        self._panes_of = np.concatenate([self._panes_of, np.zeros(capacity - before, np.int32)])
        for number, part in enumerate(self._parts):
            values, valid = self._columns[number]
            more = np.empty(capacity - before, part.dtype)
            more.fill(part.empty)
            values = np.concatenate([values, more])
            if valid is not None:
                valid = np.concatenate([valid, np.zeros(capacity - before, np.bool_)])
            self._columns[number] = values, valid

    def places(self, keys: pa.Array) -> Slots:
        """Where keys are that some pane has."""
        return self._slots.of(keys)

    def at(self, places: Slots) -> tuple[pa.Array, list[Column]]:
        """The keys at some places, and what is kept for each."""
        return self._slots.keys(places), [_some(column, places) for column in self._columns]

    def all(self) -> tuple[pa.Array, list[Column]]:
        """The keys of all panes, and what is kept for each."""
        return self.at(np.flatnonzero(self._panes_of[: len(self._slots)]))


class Merged(_ByKey):
    """Panes merged one after the other."""

    def add(self, keys: pa.Array, columns: Sequence[Column]) -> None:
        """A pane more, newer than those before."""
        slots = self._entered(keys)
        try:
            for part, kept, new in zip(self._parts, self._columns, columns, strict=True):
                _put(kept, slots, part.merge(_some(kept, slots), new))
        except DoesNotFitError as error:
            raise error.among(keys) from None


class Sums(_ByKey):
    """Sums of whole numbers, out of which a pane can be taken again.

    Numbers wrap around in between, which does not matter to a sum that fits in the end;
    ``may_overflow`` says that one may not.
    """

    def __init__(self, key: ValueType, parts: Sequence[Accumulating]) -> None:
        super().__init__(key, parts)
        self._counts = [np.zeros(0, np.int32) for _ in parts]
        """In how many panes each key has a value that counts, where it may have none."""
        self._bound = 0

    @property
    def may_overflow(self) -> bool:
        return self._bound >= _LONG_LIMIT

    def add(self, keys: pa.Array, columns: Sequence[Column]) -> None:
        """A pane more."""
        self._add(self._entered(keys), columns, 1)

    def remove(self, keys: pa.Array, columns: Sequence[Column]) -> None:
        """A pane less, as it was added."""
        slots = self._slots.of(keys)
        after = self._panes_of[slots] - 1
        self.live -= int(np.count_nonzero(after == 0))
        self._panes_of[slots] = after
        self._add(slots, columns, -1)

    def _grow(self) -> None:
        super()._grow()
        missing = len(self._panes_of) - len(self._counts[0]) if self._counts else 0
        if missing:
            self._counts = [np.concatenate([c, np.zeros(missing, np.int32)]) for c in self._counts]

    def _add(self, slots: Slots, columns: Sequence[Column], sign: int) -> None:
        for (values, valid), (new, is_new), counts in zip(
            self._columns, columns, self._counts, strict=True
        ):
            self._bound += sign * max(int(new.max(initial=0)), -int(new.min(initial=0)))
            # Distinct slots, so no two of them are added to one place.
            values[slots] += sign * new
            if valid is not None:
                counts[slots] += sign if is_new is None else (sign * is_new).astype(np.int32)
                valid[slots] = counts[slots] > 0


def _some(column: Column, places: Slots) -> Column:
    values, valid = column
    return values[places], None if valid is None else valid[places]


def _put(column: Column, places: Slots, new: Column) -> None:
    values, valid = column
    values[places] = new[0]
    if valid is not None:
        valid[places] = True if new[1] is None else new[1]
