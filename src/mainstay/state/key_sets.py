"""Growing sets of many keys in arrays: what is added to any number of them is found out at once.

A value has a number, and a set has one. A hash table over pairs of the two knows what is in which
set. The values of a set lie side by side in one array for all, in the order in which they came; one
that is full moves to the end, into twice the room. So the first values of a set stay what they are,
and reading any of them again costs what is read.

Sets are never removed. Who needs no more of most of them begins with others (``heap/panes``).

This is a hot file (benchmarks/distinct_path.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.grouping import Grouper
from mainstay.state.growing import Elements
from mainstay.state.slots import ObjectSlots, WordSlots
from mainstay.state.value_lists import Lengths, ValueLists, places_of
from mainstay.state.values import ValueType

Sets = npt.NDArray[np.int64]

_LONG = ValueType.of("long")
_NUMBER_BITS = 31
_FIRST_CAPACITY = 64
_LEAST_ROOM = 4


class KeySets:
    """Sets of values of one type, each known by its number."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self._numbers: WordSlots | ObjectSlots = (
            WordSlots(_LONG, _FIRST_CAPACITY) if elements.are_words else ObjectSlots(elements.value)
        )
        self._pairs = WordSlots(_LONG, _FIRST_CAPACITY)
        self._grouper = Grouper()
        self._sets = 0
        self._start = np.zeros(_FIRST_CAPACITY, np.int64)
        self._room = np.zeros(_FIRST_CAPACITY, np.int64)
        self._count = np.zeros(_FIRST_CAPACITY, np.int64)
        # Words as they are, of other values the numbers.
        kind = np.dtype(np.int64 if elements.are_words else np.int32)
        self._values: npt.NDArray[Any] = np.zeros(_FIRST_CAPACITY, kind)
        self._end = 0

    def __len__(self) -> int:
        """How many values all sets have together."""
        return len(self._pairs)

    def new(self, count: int) -> Sets:
        """So many empty sets."""
        first, self._sets = self._sets, self._sets + count
        if self._sets > len(self._start):
            capacity = max(self._sets, 2 * len(self._start))
            for each in (self._start, self._room, self._count):
                each.resize(capacity, refcheck=False)
        return np.arange(first, self._sets)

    def counts(self, sets: Sets) -> Lengths:
        """How many values sets have."""
        return self._count[sets]

    def add(self, sets: Sets, lists: ValueLists, *, are_distinct: bool = True) -> None:
        """Add a list of values to each of some distinct sets, of which some may be known.

        Lists of which nobody knows whether their values are distinct are looked through first.
        """
        numbers = self._numbered(lists.flat)
        of = np.repeat(sets, lists.lengths)
        pairs = of << _NUMBER_BITS | numbers
        values = lists.flat if self._elements.are_words else numbers
        if not are_distinct:
            rows = np.sort(self._grouper.group(pa.array(pairs)).rows)
            of, pairs, values = of[rows], pairs[rows], values[rows]
        known = len(self._pairs)
        # Each new pair gets the next slot.
        is_new = self._pairs.of(pa.array(pairs)) >= known
        if is_new.any():
            self._append(of[is_new], values[is_new])

    def _numbered(self, flat: Any) -> npt.NDArray[np.int64]:
        column = pa.array(flat) if self._elements.are_words else flat
        groups = self._grouper.group(column)
        if groups.codes is None:
            return self._numbers.of(column)
        codes = groups.codes
        return self._numbers.of(column.take(pa.array(groups.rows)))[codes]

    def _append(self, of: Sets, values: npt.NDArray[Any]) -> None:
        """New values, those of a set one after the other."""
        firsts = np.flatnonzero(np.diff(of, prepend=-1))
        sets, added = of[firsts], np.diff(firsts, append=len(of))
        before = self._count[sets]
        after = before + added
        is_full = after > self._room[sets]
        if is_full.any():
            self._move(sets[is_full], after[is_full])
        self._values[places_of(self._start[sets] + before, added)] = values
        self._count[sets] = after

    def _move(self, sets: Sets, needed: Lengths) -> None:
        """Give sets twice the room that they need."""
        room = np.maximum(2 * needed, _LEAST_ROOM)
        starts = self._end + np.cumsum(room) - room
        self._end += int(room.sum())
        if self._end > len(self._values):
            # In place: nothing else refers to it, and large memory is moved without being copied.
            self._values.resize(max(self._end, 2 * len(self._values)), refcheck=False)
        counts = self._count[sets]
        there = self._values[places_of(self._start[sets], counts)]
        self._values[places_of(starts, counts)] = there
        self._start[sets], self._room[sets] = starts, room

    def lists(self, sets: Sets, first: Lengths, after: Lengths) -> ValueLists:
        """The values of sets, from one place in their order to another."""
        lengths = after - first
        values = self._values[places_of(self._start[sets] + first, lengths)]
        if not self._elements.are_words:
            return ValueLists(self._elements, self._numbers.keys(values), lengths)
        return ValueLists(self._elements, values, lengths)


class KeptSets:
    """The first values of some sets: a column of accumulators, which nobody changes."""

    __slots__ = ("_of", "_sets", "lengths")

    def __init__(self, of: KeySets, sets: Sets, lengths: Lengths) -> None:
        self._of = of
        self._sets = sets
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, which: Any) -> KeptSets:
        return KeptSets(self._of, self._sets[which], self.lengths[which])

    def lists(self) -> ValueLists:
        return self._of.lists(self._sets, np.zeros(len(self), np.int64), self.lengths)

    def tolist(self) -> list[Any]:
        return self.lists().tolist()
