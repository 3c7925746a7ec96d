"""The columnar table of the heap backend: arrays by slot, one for each accumulator.

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
from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.grouping import Grouper
from mainstay.state.info import StateInfo
from mainstay.state.operations import PUT
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
        self._lanes = [Lane(part) for part in self.parts]
        self._capacity = 0
        self._changed = np.zeros(0, np.bool_)
        self._any_changed = False
        self._waiting: list[FrozenSlots] = []
        self._grouper = Grouper()

    # ------------------------------------------------------------ reading and writing

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys.

        Gives what is kept for these keys afterwards; nobody changes that later.
        """
        slots = self._slots_of(keys)
        merged = []
        for part, lane, partial in zip(self.parts, self._lanes, partials, strict=True):
            merged.append(part.merge(lane.get(slots), partial))
        self._put(slots, merged)
        self._changed[slots] = True
        self._any_changed = True
        return merged

    def _slots_of(self, keys: pa.Array) -> Slots:
        slots = self._slots.of(keys)
        needed = len(self._slots)
        if needed > self._capacity:
            self._capacity = max(needed, 2 * self._capacity, _FIRST_CAPACITY)
            self._changed.resize(self._capacity, refcheck=False)
            for lane in self._lanes:
                lane.grow(self._capacity)
        return slots

    def _put(self, slots: Slots, columns: Sequence[Column]) -> None:
        for frozen in self._waiting:
            self._save(frozen, slots)
        for lane, column in zip(self._lanes, columns, strict=True):
            lane.put(slots, column)

    def _save(self, frozen: FrozenSlots, slots: Slots) -> None:
        """Copy what a frozen segment still needs of slots that are about to change."""
        needed = slots[slots < len(frozen.pending)]
        needed = needed[frozen.pending[needed]]
        if len(needed):
            frozen.saved.append((needed, [lane.get(needed) for lane in self._lanes]))
            frozen.pending[needed] = False

    def read(self, key: Any) -> Any:
        """What is kept for a key, as a row; None where nothing is."""
        slot = self._slots.find(key)
        if slot is None:
            return None
        slots = np.array([slot])
        return self.info.value.from_array(self._values([lane.get(slots) for lane in self._lanes]))[
            0
        ]

    def peek(self, key: Any) -> Any:
        """The same, without a trace of the look."""
        return self.read(key)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and its row."""
        for start in range(0, len(self._slots), SLICE_ROWS):
            slots = np.arange(start, min(start + SLICE_ROWS, len(self._slots)))
            values = self._values([lane.get(slots) for lane in self._lanes])
            keys = self.key.from_array(self._slots.keys(slots))
            yield from zip(keys, self.info.value.from_array(values), strict=True)

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
                ops = pa.array(np.full(len(slots), PUT, np.int8))
                arrays = [self._slots.keys(slots), ops, self._values(columns)]
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
        pairs = zip(self.parts, columns, strict=True)
        counts = [c for part, column in pairs if (c := part.elements(column)) is not None]
        if not counts:
            return len(columns[0][0])
        ends = np.cumsum(np.sum(counts, axis=0))
        return max(1, int(np.searchsorted(ends, SLICE_ELEMENTS, side="right")))

    def _next(self, frozen: FrozenSlots) -> tuple[Slots, list[Column]] | None:
        slots = frozen.next_pending()
        if slots is not None:
            frozen.pending[slots] = False
            return slots, [lane.get(slots) for lane in self._lanes]
        if frozen in self._waiting:
            self._waiting.remove(frozen)
        return frozen.next_saved()

    def _values(self, columns: Sequence[Column]) -> pa.Array:
        arrays = [part.to_arrow(c) for part, c in zip(self.parts, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.info.value.arrow))

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        if (rows.column("op").to_numpy() != PUT).any():
            raise ProtocolError(f"state {self.info.name!r}: a stored row is no put.")
        keys, value = self.stored.column(rows), rows.column("value").combine_chunks()
        groups = self._grouper.group(keys)
        if groups.codes is not None:
            last = np.empty(groups.count, np.int64)
            last[groups.codes] = np.arange(len(keys))
            keys, value = keys.take(pa.array(last)), value.take(pa.array(last))
        fields = zip(self.parts, value.flatten(), strict=True)
        self._put(self._slots_of(keys), [part.from_arrow(field) for part, field in fields])

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        self._changed[: len(self._slots)] = True
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


class Lane:
    """The values of one accumulator by slot, and which of them count."""

    __slots__ = ("_empty", "_valid", "_values")

    def __init__(self, part: Accumulating) -> None:
        self._empty = part.empty
        self._values = np.empty(0, part.dtype)
        self._valid = np.zeros(0, np.bool_) if part.may_be_null and part.dtype != object else None

    def grow(self, capacity: int) -> None:
        """In place: nothing else refers to them, and large memory is moved without a copy."""
        before = len(self._values)
        self._values.resize(capacity, refcheck=False)
        # Several fields are zeros before their first row, as fresh memory is.
        if self._values.dtype.names is None and (self._empty is None or self._empty != 0):
            self._values[before:].fill(self._empty)
        if self._valid is not None:
            self._valid.resize(capacity, refcheck=False)

    def get(self, slots: Slots) -> Column:
        """Copies."""
        return self._values[slots], None if self._valid is None else self._valid[slots]

    def put(self, slots: Slots, column: Column) -> None:
        values, valid = column
        self._values[slots] = values
        if self._valid is not None:
            self._valid[slots] = True if valid is None else valid

    def clear(self, slots: Slots) -> None:
        """As before their first row."""
        empty = np.empty(len(slots), self._values.dtype)
        empty.fill(self._empty)
        self._values[slots] = empty
        if self._valid is not None:
            self._valid[slots] = False


def _part(column: Column, rows: slice) -> Column:
    values, valid = column
    return values[rows], None if valid is None else valid[rows]


def _joined(columns: Sequence[Column]) -> Column:
    values = np.concatenate([values for values, _ in columns])
    valid = [valid for _, valid in columns if valid is not None]
    return values, np.concatenate(valid) if valid else None
