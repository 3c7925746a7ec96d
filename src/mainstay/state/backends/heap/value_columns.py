"""Values in the heap backend that an operator reads and writes by the column.

The live view is columns in chunks by slot (``chunked``). The active segment is the columns that
were written, with a flag for each value that was overwritten since: freezing hands them out as they
are, and what is written is the last value of each key.

This is a hot file (benchmarks/nexmark: q18, q19).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.backends.heap.chunked import ChunkedValues, Numbers
from mainstay.state.grouping import Grouper
from mainstay.state.info import StateInfo
from mainstay.state.merge import last_values
from mainstay.state.operations import DELETE, PUT
from mainstay.state.slots import Slots, slots_for
from mainstay.state.stored_key import StoredKey

SLICE_ROWS = 16384
SLICE_BYTES = 8 << 20
_FIRST_CAPACITY = 1 << 10
_MOST_BYTES = 1 << 24
"""Bytes of an active segment beyond which what was overwritten is left out of it early."""


class HeapValueColumns:
    """One value per key."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        self.info = info
        self.stored = stored
        self.key = stored.type
        self._slots = slots_for(stored.type)
        self._values = ChunkedValues(info.value.arrow)
        self._written = _Written(0)
        self._written_at = np.full(_FIRST_CAPACITY, -1, np.int64)
        """Where among all that was ever written the last value of each slot is."""
        self._grouper = Grouper()

    # ------------------------------------------------------------ reading and writing

    def column(self, keys: pa.Array) -> pa.Array:
        return self._values.take(self._slots_of(keys))

    def put_column(self, keys: pa.Array, values: pa.Array) -> None:
        if values.type != self.info.value.arrow:
            values = values.cast(self.info.value.arrow)
        slots = self._slots_of(keys)
        self._values.put(slots, values)
        self._write(slots, values)

    def _slots_of(self, keys: pa.Array) -> Slots:
        slots = self._slots.of(keys)
        self._values.grow(len(self._slots))
        if len(self._slots) > len(self._written_at):
            more = np.full(2 * len(self._slots), -1, np.int64)
            more[: len(self._written_at)] = self._written_at
            self._written_at = more
        return slots

    def read(self, key: Any) -> Any:
        slot = self._slots.find(key)
        if slot is None:
            return None
        return self.info.value.from_array(self._values.take(np.array([slot])))[0]

    peek = read

    def bring(self, keys: Sequence[Any]) -> None:
        """Many keys are about to be read: all are here."""

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every key and its value."""
        for start in range(0, len(self._slots), SLICE_ROWS):
            slots = np.arange(start, min(start + SLICE_ROWS, len(self._slots)))
            found = self._values.take(slots)
            there = found.is_valid()
            keys = self._slots.keys(slots[there.to_numpy(zero_copy_only=False)])
            values = self.info.value.from_array(found.filter(there))
            yield from zip(self.key.from_array(keys), values, strict=True)

    survey = entries

    def relieve(self) -> None:
        """Nothing here grows in one piece between slices."""

    # ------------------------------------------------------------ snapshots

    def _write(self, slots: Slots, values: pa.Array) -> None:
        """Make values a part of the active segment."""
        written = self._written
        written.overwrite(self._written_at[slots])
        self._written_at[slots] = written.add(slots, values)
        if written.size_bytes > _MOST_BYTES and written.overwritten > written.rows // 2:
            self._written = _Written(written.after)
            for some_slots, some in written.counting():
                self._written_at[some_slots] = self._written.add(some_slots, some)

    def freeze(self) -> list[_Written]:
        """Hand out what was written since the last cut."""
        written = self._written
        self._written = _Written(written.after)
        return [written] if written.rows else []

    def leftovers(self, parts: Sequence[_Written]) -> list[_Written]:
        """Arrays are freed at once."""
        return []

    def repeats_keys(self, parts: Sequence[_Written]) -> bool:
        return False

    def encode(self, parts: Sequence[_Written]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        gathered: list[tuple[Slots, pa.Array]] = []
        rows = size = 0
        for slots, values in _in_slices(part for written in parts for part in written.counting()):
            gathered.append((slots, values))
            rows += len(slots)
            size += values.nbytes
            if rows >= SLICE_ROWS or size >= SLICE_BYTES:
                yield self._columns(gathered)
                gathered, rows, size = [], 0, 0
        if gathered:
            yield self._columns(gathered)

    def _columns(self, parts: Sequence[tuple[Slots, pa.Array]]) -> list[pa.Array]:
        slots = np.concatenate([slots for slots, _ in parts])
        values = pa.concat_arrays([values for _, values in parts])
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        ops = np.where(is_null, DELETE, PUT).astype(np.int8)
        return [self._slots.keys(slots), pa.array(ops), values]

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        self._written = _Written(self._written.after)
        for slots, values in self._values.counting():
            self._written_at[slots] = self._written.add(slots, values)

    # ------------------------------------------------------------ restore

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        if not rows.num_rows:
            return
        keys, values = last_values(rows, self.stored, self._grouper)
        self._values.put(self._slots_of(keys), values)


class _Written:
    """What was written between two cuts, from a number on, and what of it was overwritten."""

    __slots__ = ("_gone", "_parts", "first", "overwritten", "rows", "size_bytes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.rows = self.overwritten = self.size_bytes = 0
        self._parts: list[tuple[Slots, pa.Array]] = []
        self._gone: npt.NDArray[np.bool_] = np.zeros(_FIRST_CAPACITY, np.bool_)

    @property
    def after(self) -> int:
        """The number behind the last one."""
        return self.first + self.rows

    def add(self, slots: Slots, values: pa.Array) -> Numbers:
        """Add values, and give their numbers."""
        first = self.after
        self._parts.append((slots, values))
        self.rows += len(slots)
        self.size_bytes += values.nbytes
        if self.rows > len(self._gone):
            self._gone.resize(2 * self.rows, refcheck=False)
        return np.arange(first, self.after)

    def overwrite(self, numbers: Numbers) -> None:
        """Newer values follow for the slots of these. What is from before the cut is not here."""
        here = numbers[numbers >= self.first] - self.first
        self._gone[here] = True
        self.overwritten += len(here)

    def counting(self) -> Iterator[tuple[Slots, pa.Array]]:
        """The slots and the last value of each, part by part."""
        after = 0
        for slots, values in self._parts:
            start, after = after, after + len(slots)
            gone = self._gone[start:after]
            if gone.any():
                kept = np.flatnonzero(~gone)
                slots, values = slots[kept], values.take(pa.array(kept))
            if len(slots):
                yield slots, values


def _in_slices(parts: Iterator[tuple[Slots, pa.Array]]) -> Iterator[tuple[Slots, pa.Array]]:
    """The same with none of many rows."""
    for slots, values in parts:
        for start in range(0, len(slots), SLICE_ROWS):
            end = start + SLICE_ROWS
            yield slots[start:end], values.slice(start, SLICE_ROWS)
