"""The columnar table of the heap backend: arrays by slot, a lane for each accumulator.

Partial results of many keys are folded in at once, without a loop over keys. Freezing hands out
the bitmap of the slots that were changed and copies nothing: a slot's values are copied when they
are about to be overwritten while a frozen segment still needs them, or when the segment is
encoded, whichever comes first. A segment keeps what it has encoded until it is freed, because by
then the live arrays have moved on and a write that failed is done again.

A slot waits in one frozen segment at most: a later one has it only if it was changed in between,
and then the earlier one has got its copy.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import ProtocolError
from mainstay.schema.sizes import combined
from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.backends.heap.lanes import lanes_of, ops_of, rows_of, sets_of
from mainstay.state.info import StateInfo
from mainstay.state.merge import one_for_each
from mainstay.state.operations import APPEND, PUT
from mainstay.state.slots import Slots, slots_for
from mainstay.state.stored_key import StoredKey

SLICE_ROWS = 16384
SLICE_ELEMENTS = 1 << 20
"""Elements of lists that are encoded between two chances for the loop to do something else."""
_LOOK_AT = 1 << 18
"""Slots whose bit is looked at for a slice; most of them may be unchanged."""
_FIRST_CAPACITY = 1 << 10


class HeapColumns:
    """One row of accumulators per key."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        self.info = info
        self.stored = stored
        self.key = stored.type
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]
        self._slots = slots_for(stored.type)
        self._lanes = lanes_of(self.parts, info, sets_of(self.parts))
        self._capacity = 0
        self._changed = np.zeros(0, np.bool_)
        self._any_changed = False
        self._waiting: list[FrozenSlots] = []

    # ------------------------------------------------------------ reading and writing

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys.

        Gives what is kept for these keys afterwards; nobody changes that later.
        """
        slots = self._slots_of(keys)
        pairs = zip(self._lanes, partials, strict=True)
        merged = [lane.merged(slots, partial) for lane, partial in pairs]
        self._save(slots)
        pairs = zip(self._lanes, merged, strict=True)
        kept = [lane.put_merged(slots, column) for lane, column in pairs]
        self._changed[slots] = True
        self._any_changed = True
        return kept

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

    def read(self, key: Any) -> Any:
        """What is kept for a key, as a row; None where nothing is."""
        slot = self._slots.find(key)
        if slot is None:
            return None
        return self.info.value.from_array(self._rows(np.array([slot])))[0]

    def peek(self, key: Any) -> Any:
        """The same, without a trace of the look."""
        return self.read(key)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and its row."""
        for start in range(0, len(self._slots), SLICE_ROWS):
            slots = np.arange(start, min(start + SLICE_ROWS, len(self._slots)))
            keys = self.key.from_array(self._slots.keys(slots))
            yield from zip(keys, self.info.value.from_array(self._rows(slots)), strict=True)

    def _rows(self, slots: Slots) -> pa.Array:
        return rows_of(self._lanes, [lane.whole(slots) for lane in self._lanes], self.info)

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
                values = rows_of(self._lanes, columns, self.info)
                arrays = [self._slots.keys(slots), ops_of(columns), values]
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

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        rows = one_for_each(rows)
        ops = rows.column("op").to_numpy()
        if ((ops != PUT) & (ops != APPEND)).any():
            raise ProtocolError(f"state {self.info.name!r}: a stored row is no put.")
        slots = self._slots_of(self.stored.column(rows))
        for lane, field in zip(self._lanes, combined(rows.column("value")).flatten(), strict=True):
            lane.apply(slots, field, ops == PUT)

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
