"""Tables of the heap in arrays by slot: what they share, above all how they are frozen.

Freezing hands out the bitmap of the slots that were changed and copies nothing: a slot's values are
copied when they are about to be overwritten while a frozen segment still needs them, or when the
segment is encoded, whichever comes first. A segment keeps what it has encoded until it is freed,
because by then the live arrays have moved on and a write that failed is done again.

A slot waits in one frozen segment at most: a later one has it only if it was changed in between,
and then the earlier one has got its copy.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.info import StateInfo
from mainstay.state.partials import Column
from mainstay.state.slots import Slots, slots_for
from mainstay.state.stored_key import StoredKey

SLICE_ROWS = 16384
SLICE_ELEMENTS = 1 << 20
"""Elements of lists that are encoded between two chances for the loop to do something else."""
_LOOK_AT = 1 << 18
"""Slots whose bit is looked at for a slice; most of them may be unchanged."""
_FIRST_CAPACITY = 1 << 10


class SlotLane(Protocol):
    """Some of the values of each slot."""

    def grow(self, capacity: int) -> None:
        """Have room for so many slots."""

    def take(self, slots: Slots) -> Column:
        """What a frozen segment needs of slots: it stays as it is whatever comes later."""

    def elements(self, column: Column) -> npt.NDArray[np.int64] | None:
        """How many values each slot has in what was taken, where that is not one."""

    def store_again(self, slots: Slots) -> None:
        """Files have nothing of slots any more."""


class SlotTable:
    """What is kept for each key in arrays, a lane for each part of it."""

    def __init__(self, info: StateInfo, stored: StoredKey, lanes: Sequence[Any]) -> None:
        self.info = info
        self.stored = stored
        self.key = stored.type
        self._slots = slots_for(stored.type)
        self._lanes = lanes
        self._capacity = 0
        self._changed = np.zeros(0, np.bool_)
        self._any_changed = False
        self._waiting: list[FrozenSlots] = []

    def rows_of(self, columns: Sequence[Column]) -> pa.Array:
        """What was taken of slots, as it is stored."""
        raise NotImplementedError

    def ops_of(self, columns: Sequence[Column]) -> pa.Array:
        """What is done with it (see ``operations``)."""
        raise NotImplementedError

    def _slots_of(self, keys: pa.Array) -> Slots:
        slots = self._slots.of(keys)
        needed = len(self._slots)
        if needed > self._capacity:
            self._capacity = max(needed, 2 * self._capacity, _FIRST_CAPACITY)
            self._changed.resize(self._capacity, refcheck=False)
            for lane in self._lanes:
                lane.grow(self._capacity)
        return slots

    def _save(self, slots: Slots) -> None:
        """Take what frozen segments still need of slots that are about to change."""
        for frozen in self._waiting:
            needed = slots[slots < len(frozen.pending)]
            needed = needed[frozen.pending[needed]]
            if len(needed):
                frozen.saved.append((needed, [lane.take(needed) for lane in self._lanes]))
                frozen.pending[needed] = False

    def _touch(self, slots: Slots) -> None:
        """Some slots are about to change."""
        self._save(slots)
        self._changed[slots] = True
        self._any_changed = True

    # ------------------------------------------------------------ snapshots

    def freeze(self) -> list[FrozenSlots]:
        """Hand out which slots have changed, and start with none."""
        if not self._any_changed:
            return []
        frozen = FrozenSlots(self._changed)
        self._changed = np.zeros(self._capacity, np.bool_)
        self._any_changed = False
        self._waiting.append(frozen)
        return [frozen]

    def relieve(self) -> None:
        """Nothing here grows in one piece between slices."""

    def leftovers(self, parts: Sequence[FrozenSlots]) -> list[FrozenSlots]:
        """Arrays are freed at once."""
        return []

    def repeats_keys(self, parts: Sequence[FrozenSlots]) -> bool:
        """A slot that has changed is written once."""
        return False

    def encode(self, parts: Sequence[FrozenSlots]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        for frozen in parts:
            yield from tuple(frozen.encoded)
            while (taken := self._take(frozen)) is not None:
                slots, columns = taken
                arrays = [self._slots.keys(slots), self.ops_of(columns), self.rows_of(columns)]
                # Before anything else can run: what was taken is nowhere else any more.
                frozen.encoded.append(arrays)
                yield arrays

    def _take(self, frozen: FrozenSlots) -> tuple[Slots, list[Column]] | None:
        """Some slots that are not encoded yet, with their values as of the freeze."""
        taken = self._next(frozen)
        if taken is None:
            return None
        slots, columns = taken
        first = self._first_slots(columns)
        if first >= len(slots):
            return taken
        frozen.saved.append((slots[first:], [_part(c, slice(first, None)) for c in columns]))
        return slots[:first], [_part(c, slice(first)) for c in columns]

    def _first_slots(self, columns: Sequence[Column]) -> int:
        """How many slots are enough for a slice: lists may have many elements each."""
        pairs = zip(self._lanes, columns, strict=True)
        counts = [c for lane, column in pairs if (c := lane.elements(column)) is not None]
        if not counts:
            return len(columns[0][0])
        ends = np.cumsum(np.sum(counts, axis=0))
        return max(1, int(np.searchsorted(ends, SLICE_ELEMENTS, side="right")))

    def _next(self, frozen: FrozenSlots) -> tuple[Slots, list[Column]] | None:
        slots = frozen.next_pending()
        if slots is not None:
            frozen.pending[slots] = False
            return slots, [lane.take(slots) for lane in self._lanes]
        if frozen in self._waiting:
            self._waiting.remove(frozen)
        return frozen.next_saved()

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        every = np.arange(len(self._slots))
        self._changed[every] = True
        for lane in self._lanes:
            lane.store_again(every)
        self._any_changed = len(self._slots) > 0


class FrozenSlots:
    """A frozen segment. ``pending`` has the slots of which nobody has taken the values yet."""

    __slots__ = ("_looked_at", "encoded", "pending", "saved")

    def __init__(self, pending: npt.NDArray[np.bool_]) -> None:
        self.pending = pending
        self.saved: list[tuple[Slots, list[Column]]] = []
        self.encoded: list[list[pa.Array]] = []
        self._looked_at = 0

    def next_pending(self) -> Slots | None:
        """The next slots whose values are still live ones, in order; None after the last."""
        while self._looked_at < len(self.pending):
            start = self._looked_at
            found = np.flatnonzero(self.pending[start : start + _LOOK_AT])[:SLICE_ROWS] + start
            is_full = len(found) == SLICE_ROWS
            self._looked_at = int(found[-1]) + 1 if is_full else start + _LOOK_AT
            if len(found):
                return found
        return None

    def next_saved(self) -> tuple[Slots, list[Column]] | None:
        """Some of the slots whose values were copied in time; None after the last."""
        taken: list[tuple[Slots, list[Column]]] = []
        rows = 0
        while self.saved and rows < SLICE_ROWS:
            taken.append(self.saved.pop())
            rows += len(taken[-1][0])
        if not taken:
            return None
        columns = zip(*(columns for _, columns in taken), strict=True)
        return np.concatenate([slots for slots, _ in taken]), [_joined(c) for c in columns]


def _part(column: Column, rows: slice) -> Column:
    values, valid = column
    return values[rows], None if valid is None else valid[rows]


def _joined(columns: Sequence[Column]) -> Column:
    values = np.concatenate([values for values, _ in columns])
    valid = [valid for _, valid in columns if valid is not None]
    return values, np.concatenate(valid) if valid else None
