"""Spans in the heap backend: arrays by place, one for each accumulator.

A frozen segment says by places what it holds, as that of other columns does by slots. What it needs
of a place that is about to change, or to be given up, is copied before, with key and start. What
was removed before any segment was frozen leaves no trace in files; of the rest a segment says that
it is deleted.

This is a hot file (benchmarks/sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.schema.sizes import combined
from mainstay.state.accumulating import Accumulating, Column, accumulating
from mainstay.state.backends.heap.lanes import rows_of
from mainstay.state.backends.heap.slotted import SLICE_ROWS, FrozenSlots
from mainstay.state.backends.heap.span_lanes import GrownLane, said, span_lanes
from mainstay.state.columns import word_of, words_as
from mainstay.state.grouping import Grouper, words_of
from mainstay.state.info import StateInfo
from mainstay.state.merge import one_for_each
from mainstay.state.operations import APPEND, DELETE
from mainstay.state.slots import Slots
from mainstay.state.span_places import Places, SpanPlaces, Starts
from mainstay.state.stored_key import StoredKey


class Deleted:
    """Pairs that files hold, and that are to be deleted there."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: pa.Array) -> None:
        self.pairs = pairs


Part = FrozenSlots | Deleted


class HeapSpans:
    """A row of accumulators for each span."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        assert stored.namespace is not None
        self.info = info
        self.stored = stored
        self.key = stored.type
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]
        self._namespace = stored.namespace
        self._places = SpanPlaces(stored.key)
        self._lanes = span_lanes(self.parts, info)
        self._changed = np.zeros(0, np.bool_)
        self._stored = np.zeros(0, np.bool_)
        """Of which places any file may hold the span."""
        self._deleted: list[Deleted] = []
        self._waiting: list[FrozenSlots] = []
        self._grouper = Grouper()
        self.of, self.all = self._places.of, self._places.all
        self.keys, self.starts = self._places.keys, self._places.starts

    # ------------------------------------------------------------ reading and writing

    def columns_at(self, places: Places) -> list[Column]:
        """Copies of what is kept for spans."""
        return [lane.get(places) for lane in self._lanes]

    def add(
        self, keys: pa.Array, codes: Slots, starts: Starts, columns: Sequence[Column]
    ) -> Places:
        places = self._places.add(keys, codes, starts)
        capacity = self._places.capacity
        if capacity > len(self._changed):
            self._changed.resize(capacity, refcheck=False)
            self._stored.resize(capacity, refcheck=False)
            for lane in self._lanes:
                lane.grow(capacity)
        self._put(places, columns)
        return places

    def put_at(self, places: Places, columns: Sequence[Column]) -> None:
        self._save(places)
        self._put(places, columns)

    def remove(self, places: Places) -> None:
        self._save(places)
        stored = places[self._stored[places]]
        if len(stored):
            pairs = self._pairs(self._places.slots(stored), self.starts(stored))
            self._deleted.append(Deleted(pairs))
        for lane in self._lanes:
            lane.clear(places)
        self._changed[places] = self._stored[places] = False
        self._places.remove(places)

    def _put(self, places: Places, columns: Sequence[Column]) -> None:
        for lane, column in zip(self._lanes, columns, strict=True):
            lane.put(places, column)
        self._changed[places] = True

    def _save(self, places: Places) -> None:
        """Copy what frozen segments still need of places that are about to change."""
        for frozen in self._waiting:
            needed = places[places < len(frozen.pending)]
            needed = needed[frozen.pending[needed]]
            if len(needed):
                frozen.saved.append((needed, self._taken(needed)))
                frozen.pending[needed] = False

    def _taken(self, places: Places) -> list[Column]:
        """The numbers of keys and the starts, followed by what a segment needs of what is kept."""
        own: list[Column] = [(self._places.slots(places), None), (self.starts(places), None)]
        return own + [lane.take(places) for lane in self._lanes]

    def read(self, pair: Any) -> Any:
        """What is kept for a pair, as a row; None where nothing is."""
        key, start = pair
        place = self._places.find_one(key, word_of(self._namespace, start))
        if place is None:
            return None
        return self.info.value.from_array(self._values(self.columns_at(np.array([place]))))[0]

    def peek(self, pair: Any) -> Any:
        """The same, without a trace of the look."""
        return self.read(pair)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every pair and its row."""
        every = self.all()
        for start in range(0, len(every), SLICE_ROWS):
            some = every[start : start + SLICE_ROWS]
            pairs = self.key.from_array(self._pairs(self._places.slots(some), self.starts(some)))
            rows = self.info.value.from_array(self._values(self.columns_at(some)))
            yield from zip(pairs, rows, strict=True)

    # ------------------------------------------------------------ snapshots

    def freeze(self) -> list[Part]:
        """Hand out which places have changed, and what was deleted."""
        parts: list[Part] = [*self._deleted]
        self._deleted = []
        if self._changed.any():
            frozen = FrozenSlots(self._changed)
            self._stored |= self._changed
            self._changed = np.zeros(len(self._stored), np.bool_)
            self._waiting.append(frozen)
            parts.append(frozen)
        return parts

    def relieve(self) -> None:
        """Forget keys that have no span, when there are many. What segments still need has the
        numbers of keys, so not before they are encoded."""
        if not self._waiting and self._places.has_many_dead:
            self._places.number_anew()

    def leftovers(self, parts: Sequence[Part]) -> list[Part]:
        """Arrays are freed at once."""
        return []

    def repeats_keys(self, parts: Sequence[Part]) -> bool:
        """A place that has changed is written once."""
        return False

    def encode(self, parts: Sequence[Part]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        for part in parts:
            if isinstance(part, Deleted):
                yield from self._deletions(part.pairs)
                continue
            yield from tuple(part.encoded)
            while (columns := self._take(part)) is not None:
                (slots, _), (starts, _), *kept = columns
                ops, kept = said(self._lanes, kept)
                values = rows_of(self._lanes, kept, self.info)
                arrays = [self._pairs(slots, starts), ops, values]
                # Before anything else can run: what was taken is nowhere else any more.
                part.encoded.append(arrays)
                yield arrays

    def _take(self, frozen: FrozenSlots) -> list[Column] | None:
        """Some spans that are not encoded yet, as of the freeze."""
        places = frozen.next_pending()
        if places is not None:
            frozen.pending[places] = False
            return self._taken(places)
        saved = frozen.next_saved()
        if saved is None and frozen in self._waiting:
            self._waiting.remove(frozen)
        return None if saved is None else saved[1]

    def _deletions(self, pairs: pa.Array) -> Iterator[list[pa.Array]]:
        for start in range(0, len(pairs), SLICE_ROWS):
            some = pairs.slice(start, SLICE_ROWS)
            ops = pa.array(np.full(len(some), DELETE, np.int8))
            yield [some, ops, pa.nulls(len(some), self.info.value.arrow)]

    def _pairs(self, slots: Slots, starts: Starts) -> pa.Array:
        arrays = [self._places.keys_of(slots), words_as(self._namespace, starts)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.key.arrow))

    def _values(self, columns: Sequence[Column]) -> pa.Array:
        arrays = [part.to_arrow(c) for part, c in zip(self.parts, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.info.value.arrow))

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        rows = one_for_each(rows)
        pairs, value = self.stored.column(rows), combined(rows.column("value"))
        ops = rows.column("op").to_numpy()
        keys, namespaces = pairs.flatten()
        of_keys = self._grouper.group(keys)
        codes = np.arange(len(keys)) if of_keys.codes is None else of_keys.codes.copy()
        keys = keys.take(pa.array(of_keys.rows))
        starts = words_of(namespaces)
        places = self._places.find(keys, codes, starts)
        stays = ops != DELETE
        columns = self._after(places, value, ops == APPEND)
        # What stays is put anew, so that it does not matter what was there.
        there = places[places >= 0]
        self._stored[there] = False
        self.remove(there)
        columns = [_some(column, stays) for column in columns]
        added = self.add(keys, codes[stays], starts[stays], columns)
        self._changed[added] = False
        self._stored[added] = True
        for lane in self._lanes:
            if isinstance(lane, GrownLane):
                lane.are_stored(added)

    def _after(self, places: Places, value: pa.Array, appended: Any) -> list[Column]:
        """What stored rows come to: sets together with those that they are appended to."""
        fields = zip(self.parts, value.flatten(), strict=True)
        columns = [part.from_arrow(field) for part, field in fields]
        known = np.flatnonzero(appended & (places >= 0))
        if len(known):
            kept = self.columns_at(places[known])
            for lane, (values, _), old in zip(self._lanes, columns, kept, strict=True):
                if isinstance(lane, GrownLane):
                    values[known] = lane.part.merge(old, (values[known], None))[0]
        return columns

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        self._deleted = []
        every = self.all()
        self._changed[every] = True
        for lane in self._lanes:
            lane.store_again(every)


def _some(column: Column, mask: Any) -> Column:
    values, valid = column
    return values[mask], None if valid is None else valid[mask]
