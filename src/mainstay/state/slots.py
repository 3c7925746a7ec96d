"""Slots: a number for each key, by which columnar state is laid out in arrays.

Keys that are whole numbers underneath are looked up by whole columns: in a window over a range of
keys that is dense enough (a place for each), and beyond it in a hash table. A table that is full is
not rebuilt in one go, which would hold the worker up: new keys go to a larger one, to which the old
keys are moved some at a time. Other keys are looked up in a dictionary. A key with a namespace is
looked up by a whole number again, made of the slots of the two.

This is a hot file (benchmarks/aggregate_path.py).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.grouping import Grouper, Words, is_word, scattered, words_of
from mainstay.state.partials import dtype_of
from mainstay.state.stored_key import PairType
from mainstay.state.values import ValueType

Slots = npt.NDArray[np.int64]

_FIRST_CAPACITY = 1 << 12
_MOVED_AT_ONCE = 1 << 14
_WINDOW_PER_KEY = 8
_SMALLEST_WINDOW = 1 << 12
_NAMESPACE_BITS = 31
"""A slot is a number of 32 bits with a sign, so a pair of them is one of 64."""


def slots_for(key: ValueType) -> WordSlots | ObjectSlots | PairSlots | StructSlots:
    """The slots of keys of a type."""
    if isinstance(key, PairType):
        return PairSlots(key)
    if pa.types.is_struct(key.arrow) and key.arrow.num_fields > 1:
        return StructSlots(key)
    return WordSlots(key) if is_word(key.arrow) else ObjectSlots(key)


class ObjectSlots:
    """Slots of keys that are kept as Python objects."""

    def __init__(self, key: ValueType) -> None:
        self._key = key
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: Any) -> int | None:
        """The slot of one key in its kept form."""
        return self._slots.get(key)

    def of(self, keys: pa.Array) -> Slots:
        """The slots of distinct keys; a new key gets the next one."""
        kept = self._key.from_array(keys)
        slots = list(map(self._slots.get, kept))
        for position, slot in enumerate(slots):
            if slot is None:
                slots[position] = self._slots[kept[position]] = len(self._keys)
                self._keys.append(kept[position])
        return np.array(slots, np.int64)

    def keys(self, slots: Slots) -> pa.Array:
        keys = self._keys
        return self._key.to_array([keys[slot] for slot in slots.tolist()])


class PairSlots:
    """Slots of pairs of a key and a namespace: each of the two has slots, and so has their pair."""

    def __init__(self, pair: PairType) -> None:
        self._parts = (slots_for(pair.key), slots_for(pair.namespace))
        self._fields = list(pair.arrow)
        self._pairs = WordSlots(ValueType.of("long"))
        self._grouper = Grouper()

    def __len__(self) -> int:
        return len(self._pairs)

    def find(self, pair: Any) -> int | None:
        """The slot of one pair in its kept form."""
        found = [part.find(kept) for part, kept in zip(self._parts, pair, strict=True)]
        key, namespace = found
        if key is None or namespace is None:
            return None
        return self._pairs.find(key << _NAMESPACE_BITS | namespace)

    def of(self, pairs: pa.Array) -> Slots:
        """The slots of distinct pairs; a new one gets the next slot."""
        parts = zip(self._parts, pairs.flatten(), strict=True)
        key, namespace = (slots_in(slots, column, self._grouper) for slots, column in parts)
        return self._pairs.of(pa.array(key << _NAMESPACE_BITS | namespace))

    def keys(self, slots: Slots) -> pa.Array:
        words = words_of(self._pairs.keys(slots))
        numbers = (words >> _NAMESPACE_BITS, words & ((1 << _NAMESPACE_BITS) - 1))
        arrays = [part.keys(each) for part, each in zip(self._parts, numbers, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=self._fields)


class StructSlots:
    """Slots of keys of several fields: the values of each field have slots, and so have the pairs
    of the first two, of those pairs and the third, and so on."""

    def __init__(self, key: ValueType) -> None:
        self._fields = list(key.arrow)
        self._parts = [slots_for(ValueType.of(field.type)) for field in self._fields]
        self._pairs = [WordSlots(ValueType.of("long")) for _ in self._fields[1:]]
        self._grouper = Grouper()

    def __len__(self) -> int:
        return len(self._pairs[-1])

    def find(self, key: Any) -> int | None:
        """The slot of one key in its kept form."""
        if key is None:
            return self._pairs[-1].find(None)
        first, *others = (part.find(kept) for part, kept in zip(self._parts, key, strict=True))
        for pairs, other in zip(self._pairs, others, strict=True):
            if first is None or other is None:
                return None
            first = pairs.find(first << _NAMESPACE_BITS | other)
        return first

    def of(self, keys: pa.Array) -> Slots:
        """The slots of distinct keys; a new one gets the next slot."""
        parts = zip(self._parts, keys.flatten(), strict=True)
        first, *others = (slots_in(slots, column, self._grouper) for slots, column in parts)
        for pairs, other in zip(self._pairs[:-1], others[:-1], strict=True):
            words = pa.array(first << _NAMESPACE_BITS | other)
            first = slots_in(pairs, words, self._grouper)
        mask = keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None
        return self._pairs[-1].of(pa.array(first << _NAMESPACE_BITS | others[-1], mask=mask))

    def keys(self, slots: Slots) -> pa.Array:
        whole, arrays = self._pairs[-1].keys(slots), []
        for pairs, part in zip(reversed(self._pairs), reversed(self._parts), strict=False):
            # Null where all of the key is: that has no fields.
            words = words_of(pairs.keys(slots).fill_null(0))
            slots = words >> _NAMESPACE_BITS
            arrays.append(part.keys(words & ((1 << _NAMESPACE_BITS) - 1)))
        arrays = [self._parts[0].keys(slots), *reversed(arrays)]
        mask = whole.is_null() if whole.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=self._fields, mask=mask)


def slots_in(slots: Any, column: pa.Array, grouper: Grouper) -> Slots:
    """The slots of a column in which values come again."""
    groups = grouper.group(column)
    if groups.codes is None:
        return cast(Slots, slots.of(column))
    return cast(Slots, slots.of(column.take(pa.array(groups.rows)))[groups.codes])


class WordSlots:
    """Slots of keys that are whole numbers underneath, and of null.

    ``capacity`` is how many keys there is room for at first.
    """

    def __init__(self, key: ValueType, capacity: int = _FIRST_CAPACITY) -> None:
        self._key = key
        self._smallest_window = min(capacity, _SMALLEST_WINDOW)
        self._words = np.empty(capacity, np.int64)
        self._count = 0
        self._null: int | None = None
        self._low = 0
        # One more than the slot, so that fresh memory is an empty window.
        self._window = np.zeros(0, np.int32)
        self._table = _Table(capacity)
        self._next: _Table | None = None
        self._moved = self._to_move = 0

    def __len__(self) -> int:
        return self._count

    def find(self, key: Any) -> int | None:
        """The slot of one key in its kept form."""
        if key is None:
            return self._null
        slot = int(self._lookup(words_of(self._key.to_array([key])))[0])
        return None if slot < 0 else slot

    def of(self, keys: pa.Array) -> Slots:
        """The slots of distinct keys; a new key gets the next one."""
        if not keys.null_count:
            return self._of(words_of(keys))
        valid = keys.is_valid().to_numpy(zero_copy_only=False)
        slots = np.empty(len(keys), np.int64)
        slots[valid] = self._of(words_of(keys.drop_null()))
        slots[~valid] = self._slot_of_null()
        return slots

    def _slot_of_null(self) -> int:
        if self._null is None:
            self._null = int(self._add(np.zeros(1, np.int64))[0])
        return self._null

    def _of(self, words: Words) -> Slots:
        slots = self._lookup(words)
        new = np.flatnonzero(slots < 0)
        if len(new):
            slots[new] = self._insert(words[new])
        return slots

    def keys(self, slots: Slots) -> pa.Array:
        arrow = self._key.arrow
        words = self._words[slots].astype(dtype_of(arrow), copy=False)
        bits = None
        if self._null is not None and (slots == self._null).any():
            bits = pa.py_buffer(np.packbits(slots != self._null, bitorder="little"))
        return pa.Array.from_buffers(arrow, len(slots), [bits, pa.py_buffer(words)])

    # ------------------------------------------------------------ looking up

    def _lookup(self, words: Words) -> Slots:
        """Slots, -1 where a key has none."""
        places = self._places(words)
        if int(places.max(initial=0)) < len(self._window):
            return self._window[places.view(np.int64)].astype(np.int64) - 1
        slots = np.full(len(words), -1, np.int64)
        is_inside = places < np.uint64(len(self._window))
        inside, outside = np.flatnonzero(is_inside), np.flatnonzero(~is_inside)
        slots[inside] = self._window[places[inside].view(np.int64)].astype(np.int64) - 1
        for table in (self._table, self._next):
            if table is not None and table.count and len(outside):
                slots[outside] = found = table.lookup(words[outside])
                outside = outside[found < 0]
        return slots

    def _places(self, words: Words) -> npt.NDArray[np.uint64]:
        """Places in the window. A distance below zero is a huge one without sign: outside."""
        return (words - np.int64(self._low)).view(np.uint64)

    # ------------------------------------------------------------ growing

    def _add(self, words: Words) -> Slots:
        """The next slots, for keys that are not known yet."""
        first, self._count = self._count, self._count + len(words)
        while self._count > len(self._words):
            # In place: nothing else refers to it, and large memory is moved without being copied.
            self._words.resize(2 * len(self._words), refcheck=False)
        self._words[first : self._count] = words
        return np.arange(first, self._count)

    def _insert(self, words: Words) -> Slots:
        slots = self._add(words)
        self._widen(words)
        outside = self._enter(words, slots)
        if len(outside):
            self._hash(words[outside], slots[outside])
        return slots

    def _enter(self, words: Words, slots: Slots) -> Slots:
        """Put keys into the window; gives the positions of those that are outside."""
        places = self._places(words)
        inside = places < np.uint64(len(self._window))
        self._window[places[inside].view(np.int64)] = slots[inside] + 1
        return np.flatnonzero(~inside)

    def _widen(self, words: Words) -> None:
        """Let the window reach over new keys, if it stays dense enough.

        All keys that are then inside enter it, so that nobody looks for them in a table, where
        some of them may still be.
        """
        low, high = int(words.min()), int(words.max())
        if len(self._window):
            low = min(low, self._low)
            high = max(high, self._low + len(self._window) - 1)
        size = high - low + 1
        most = _WINDOW_PER_KEY * self._count + self._smallest_window
        if size <= len(self._window) or size > most:
            return
        # Room on the side on which it grew, since the next keys are likely to come there. The
        # whole of it must stay within the numbers there are.
        room = size // 2
        grew_down = bool(len(self._window)) and low < self._low
        if grew_down:
            low = max(low - room, -(1 << 63))
        size = min(high - low + 1 + (0 if grew_down else room), (1 << 63) - low)
        self._low, self._window = low, np.zeros(size, np.int32)
        every = np.arange(self._count)
        if self._null is not None:
            every = np.delete(every, self._null)
        self._enter(self._words[every], every)

    def _hash(self, words: Words, slots: Slots) -> None:
        """Put new keys into the table, or into the next one while keys are moved there."""
        if self._next is not None and self._next.room < self._to_move - self._moved + len(words):
            self._move(self._to_move)
        if self._next is None and self._table.room < len(words):
            self._next = _Table(2 * (self._table.count + len(words)))
            self._moved, self._to_move = 0, int(slots[0])
        (self._next or self._table).insert(words, slots)
        if self._next is not None:
            # Faster than new keys come, so that the next table has them all before it is full.
            self._move(max(_MOVED_AT_ONCE, 4 * len(words)))

    def _move(self, most: int) -> None:
        """Move some of the keys that were there when the next table was begun."""
        assert self._next is not None
        slots = np.arange(self._moved, min(self._moved + most, self._to_move))
        words = self._words[slots]
        hashed = self._places(words) >= np.uint64(len(self._window))
        if self._null is not None:
            hashed &= slots != self._null
        self._next.insert(words[hashed], slots[hashed])
        self._moved += len(slots)
        if self._moved == self._to_move:
            self._table, self._next = self._next, None


class _Table:
    """A hash table of fixed size with linear probing, at most half full, without deletions."""

    def __init__(self, capacity: int) -> None:
        self._bits = bits = capacity.bit_length() + 1
        self._mask = (1 << bits) - 1
        self._words = np.zeros(1 << bits, np.int64)
        # One more than the slot, so that fresh memory is an empty table.
        self._slots = np.zeros(1 << bits, np.int32)
        self.count = 0

    @property
    def room(self) -> int:
        return len(self._words) // 2 - self.count

    def lookup(self, words: Words) -> Slots:
        places = scattered(words, self._bits)
        slots = self._slots[places].astype(np.int64)
        left = np.flatnonzero((self._words[places] != words) & (slots > 0))
        while len(left):
            at = places[left] = (places[left] + 1) & self._mask
            found = self._slots[at]
            ends = (self._words[at] == words[left]) | (found == 0)
            slots[left[ends]] = found[ends]
            left = left[~ends]
        return slots - 1

    def insert(self, words: Words, slots: Slots) -> None:
        """Keys that are not in it yet, as many as it has room for."""
        self.count += len(words)
        places = scattered(words, self._bits)
        left = np.arange(len(words))
        marks = (slots + 1).astype(np.int32)
        while len(left):
            at = places[left]
            free = self._slots[at] == 0
            takers = left[free]
            # Of those that take the same place the last stays, and the others go on.
            self._slots[at[free]] = marks[takers]
            stays = self._slots[at[free]] == marks[takers]
            self._words[at[free][stays]] = words[takers[stays]]
            left = np.concatenate([left[~free], takers[~stays]])
            places[left] = (places[left] + 1) & self._mask
