"""Places of spans: a number for each pair of a key and a start, and the spans of each key.

The spans of a key are a list that runs through the places, since most keys have one and some have
several. A place that was given up is taken by the next span. Keys are numbered by a table that only
grows; when most of its keys have no span any more, those that have are numbered anew.

Everything is done for many keys at once: what concerns several spans of one key takes as many
rounds.

This is a hot file (benchmarks/sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.slots import Slots, slots_for
from mainstay.state.values import ValueType

Places = npt.NDArray[np.int64]
Starts = npt.NDArray[np.int64]
NONE = -1
_FEW_KEYS = 1 << 12
"""A table of keys that is no larger is not worth another one."""
_FIRST_CAPACITY = 64


class SpanPlaces:
    """The places of the spans of one table."""

    def __init__(self, key: ValueType) -> None:
        self._key = key
        self._slots = slots_for(key)
        self._first = np.full(0, NONE, np.int32)
        """By the slot of a key, the place of the first of its spans."""
        self._mark = np.zeros(0, np.int32)
        """By the slot of a key, what is just being worked on."""
        self._key_of = np.full(0, NONE, np.int32)
        """By place, the slot of its key; NONE where the place is free."""
        self._next = np.full(0, NONE, np.int32)
        self._before = np.full(0, NONE, np.int32)
        self._starts = np.zeros(0, np.int64)
        self._free = np.zeros(0, np.int32)
        self._free_count = 0
        self._live_keys = 0
        self.count = 0
        """How many places were ever taken."""

    @property
    def capacity(self) -> int:
        """How many places there is room for."""
        return len(self._starts)

    @property
    def live(self) -> int:
        """How many spans there are."""
        return self.count - self._free_count

    @property
    def has_many_dead(self) -> bool:
        """Whether most keys that it knows have no span any more."""
        return len(self._slots) > 2 * self._live_keys + _FEW_KEYS

    # ------------------------------------------------------------ looking up

    def of(self, keys: pa.Array) -> tuple[Slots, Places]:
        """All spans of some distinct keys: the number of the key among these, and the place."""
        at = self._first[self._slots_of(keys)].astype(np.int64)
        codes = np.flatnonzero(at >= 0)
        at = at[codes]
        found_codes, found = [codes], [at]
        while len(at):
            at = self._next[at].astype(np.int64)
            more = at >= 0
            if not more.any():
                break
            codes, at = codes[more], at[more]
            found_codes.append(codes)
            found.append(at)
        if len(found) == 1:
            return found_codes[0], found[0]
        return np.concatenate(found_codes), np.concatenate(found)

    def find(self, keys: pa.Array, codes: Slots, starts: Starts) -> Places:
        """The places of pairs: of a key, by its number among distinct ones, and a start."""
        at = self._first[self._slots_of(keys)].astype(np.int64)[codes]
        found = np.full(len(codes), NONE, np.int64)
        left = np.flatnonzero(at >= 0)
        while len(left):
            is_hit = self._starts[at[left]] == starts[left]
            found[left[is_hit]] = at[left[is_hit]]
            left = left[~is_hit]
            at[left] = self._next[at[left]]
            left = left[at[left] >= 0]
        return found

    def find_one(self, key: Any, start: int) -> int | None:
        """The place of one pair, of a key in its kept form."""
        slot = self._slots.find(key)
        at = NONE if slot is None or slot >= len(self._first) else int(self._first[slot])
        while at >= 0 and self._starts[at] != start:
            at = int(self._next[at])
        return None if at < 0 else at

    def all(self) -> Places:
        """All places that are taken."""
        return np.flatnonzero(self._key_of[: self.count] >= 0)

    def slots(self, places: Places) -> Slots:
        """The numbers of the keys at some places, which stay until keys are numbered anew."""
        return self._key_of[places].astype(np.int64)

    def keys(self, places: Places) -> pa.Array:
        return self.keys_of(self.slots(places))

    def keys_of(self, slots: Slots) -> pa.Array:
        """The keys that have these numbers."""
        return self._slots.keys(slots)

    def starts(self, places: Places) -> Starts:
        return self._starts[places]

    # ------------------------------------------------------------ changing

    def add(self, keys: pa.Array, codes: Slots, starts: Starts) -> Places:
        """Places for pairs that have none."""
        slots = self._slots_of(keys)[codes]
        places = self._taken(len(slots))
        self._key_of[places] = slots
        self._starts[places] = starts
        for some in self._rounds(slots):
            at, of = places[some], slots[some]
            first = self._first[of]
            self._live_keys += int(np.count_nonzero(first < 0))
            self._next[at] = first
            self._before[at] = NONE
            self._before[first[first >= 0]] = at[first >= 0]
            self._first[of] = at
        return places

    def remove(self, places: Places) -> None:
        """Give distinct places up."""
        slots = self.slots(places)
        for some in self._rounds(slots):
            at, of = places[some], slots[some]
            before, following = self._before[at], self._next[at]
            is_first = before < 0
            self._next[before[~is_first]] = following[~is_first]
            self._first[of[is_first]] = following[is_first]
            has_next = following >= 0
            self._before[following[has_next]] = before[has_next]
            self._live_keys -= int(np.count_nonzero(is_first & ~has_next))
        self._key_of[places] = NONE
        end = self._free_count + len(places)
        if end > len(self._free):
            self._free.resize(max(end, 2 * len(self._free), _FIRST_CAPACITY), refcheck=False)
        self._free[self._free_count : end] = places
        self._free_count = end

    def number_anew(self) -> None:
        """Forget the keys that have no span. Numbers of keys change."""
        kept = np.flatnonzero(self._first[: len(self._slots)] >= 0)
        first, keys = self._first[kept], self._slots.keys(kept)
        before = len(self._first)
        self._slots = slots_for(self._key)
        self._first, self._mark = np.full(0, NONE, np.int32), np.zeros(0, np.int32)
        slots = self._slots_of(keys)
        self._first[slots] = first
        numbers = np.full(before, NONE, np.int32)
        numbers[kept] = slots
        places = self.all()
        self._key_of[places] = numbers[self._key_of[places]]

    def _taken(self, count: int) -> Places:
        """Free places, or new ones."""
        reused = min(count, self._free_count)
        self._free_count -= reused
        again = self._free[self._free_count : self._free_count + reused].astype(np.int64)
        new = np.arange(self.count, self.count + count - reused)
        self.count += len(new)
        if self.count > self.capacity:
            size = max(self.count, 2 * self.capacity, _FIRST_CAPACITY)
            self._starts.resize(size, refcheck=False)
            for name in ("_key_of", "_next", "_before"):
                array = getattr(self, name)
                array.resize(size, refcheck=False)
        return np.concatenate([again, new])

    def _slots_of(self, keys: pa.Array) -> Slots:
        slots = self._slots.of(keys)
        before, needed = len(self._first), len(self._slots)
        if needed > before:
            size = max(needed, 2 * before, _FIRST_CAPACITY)
            self._first.resize(size, refcheck=False)
            self._first[before:] = NONE
            self._mark.resize(size, refcheck=False)
        return slots

    def _rounds(self, slots: Slots) -> Iterator[Any]:
        """All positions, in rounds in which no key comes twice."""
        left: Any = np.arange(len(slots), dtype=np.int32)
        while len(left):
            of = slots[left]
            self._mark[of] = left
            is_turn = self._mark[of] == left
            if is_turn.all():
                yield left
                return
            yield left[is_turn]
            left = left[~is_turn]
