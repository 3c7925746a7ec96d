"""One pane of the heap: the accumulators of the keys that have rows in one namespace.

A key has a place in the pane, in the order in which keys came, and keeps it for as long as the pane
lives. So a frozen segment can say by places what it holds, as that of a table without namespaces
does by slots (``columns``), and a pane that is dropped stays whole for the segments that need it.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.backends.heap.lanes import Lane, SetLane, sets_of
from mainstay.state.backends.heap.slotted import FrozenSlots
from mainstay.state.grouping import words_of
from mainstay.state.slots import Slots, WordSlots, slots_for
from mainstay.state.values import ValueType

_SLOT = ValueType.of("long")
_FIRST_CAPACITY = 64


class LiveKeys:
    """The slots of keys that panes share, and in how many panes each of them is."""

    def __init__(self, key: ValueType) -> None:
        self.slots = slots_for(key)
        self.live = 0
        """How many keys are in any pane."""
        self._panes_of = np.zeros(_FIRST_CAPACITY, np.int32)

    def __len__(self) -> int:
        return len(self.slots)

    def entered(self, slots: Slots) -> None:
        """Distinct keys have come into a pane."""
        if len(self.slots) > len(self._panes_of):
            self._panes_of.resize(2 * len(self.slots), refcheck=False)
        before = self._panes_of[slots]
        self.live += int(np.count_nonzero(before == 0))
        self._panes_of[slots] = before + 1

    def left(self, slots: Slots) -> None:
        """Distinct keys have left a pane."""
        after = self._panes_of[slots] - 1
        self.live -= int(np.count_nonzero(after == 0))
        self._panes_of[slots] = after


class LiveSets:
    """The sets of distinct values that panes share, of each accumulator that has some."""

    def __init__(self, parts: Sequence[Accumulating]) -> None:
        self.of = sets_of(parts)
        self.dead = 0
        """How many values there are of panes that were dropped."""

    def __len__(self) -> int:
        return sum(len(each) for each in self.of if each is not None)


class Pane:
    """The accumulators of one namespace."""

    __slots__ = (
        "_capacity",
        "_gone",
        "_places",
        "changed",
        "gone",
        "keys",
        "lanes",
        "namespace",
        "sets",
        "stored",
        "waiting",
    )

    def __init__(
        self, namespace: int, keys: LiveKeys, lanes: Sequence[Lane], sets: LiveSets
    ) -> None:
        self.namespace = namespace
        self.keys = keys
        self.lanes = lanes
        self.sets = sets
        self.changed = np.zeros(0, np.bool_)
        self.stored = 0
        """How many keys, of those that came first, any file may hold."""
        self.gone = 0
        """How many of its keys were deleted by themselves."""
        self.waiting: list[FrozenPane] = []
        self._gone = np.zeros(0, np.bool_)
        self._places = WordSlots(_SLOT, _FIRST_CAPACITY)
        self._capacity = 0

    def __len__(self) -> int:
        return len(self._places)

    def find(self, slot: int) -> int | None:
        """The place of a key, if it is here."""
        place = self._places.find(slot)
        return None if place is None or self._gone[place] else place

    def slots(self, places: Slots) -> Slots:
        """The slots of the keys at some places."""
        return words_of(self._places.keys(places))

    def places(self) -> Slots:
        """Where keys are."""
        every = np.arange(len(self))
        return every[~self._gone[: len(self)]] if self.gone else every

    def columns(self, places: Slots) -> list[Column]:
        """Copies of what is kept at some places."""
        return [lane.get(places) for lane in self.lanes]

    def distinct(self) -> int:
        """How many distinct values are kept, by all accumulators."""
        return sum(lane.live() for lane in self.lanes if isinstance(lane, SetLane))

    def fold(self, slots: Slots, partials: Sequence[Column]) -> list[Column]:
        """Merge partial results into distinct keys; what is kept for them then."""
        places = self._entered(slots)
        pairs = zip(self.lanes, partials, strict=True)
        merged = [lane.merged(places, partial) for lane, partial in pairs]
        self._save(places)
        pairs = zip(self.lanes, merged, strict=True)
        kept = [lane.put_merged(places, column) for lane, column in pairs]
        self.changed[places] = True
        return kept

    def apply(
        self, slots: Slots, fields: Sequence[pa.Array], is_put: npt.NDArray[np.bool_]
    ) -> None:
        """What a file holds of distinct keys: put, or appended to what is there."""
        places = self._entered(slots)
        for lane, field in zip(self.lanes, fields, strict=True):
            lane.apply(places, field, is_put)
        self.stored = len(self)

    def delete(self, slots: Slots) -> None:
        """Forget distinct keys; what a file says, so those that are not here do not matter."""
        found = [place for slot in slots.tolist() if (place := self.find(slot)) is not None]
        self.clear(np.array(found, np.int64))

    def clear(self, places: Slots) -> None:
        """Forget what is at some places, of those where keys are."""
        self._save(places)
        for lane in self.lanes:
            lane.clear(places)
        self._gone[places] = True
        self.gone += len(places)
        self.keys.left(self.slots(places))

    def _entered(self, slots: Slots) -> Slots:
        """The places of distinct keys, which may be new."""
        before = len(self)
        places = self._places.of(pa.array(slots))
        if len(self) > self._capacity:
            self._capacity = max(len(self), 2 * self._capacity, _FIRST_CAPACITY)
            self.changed.resize(self._capacity, refcheck=False)
            self._gone.resize(self._capacity, refcheck=False)
            for lane in self.lanes:
                lane.grow(self._capacity)
        if len(self) > before:
            self.keys.entered(slots[places >= before])
        if self.gone:
            again = self._gone[places]
            self._gone[places] = False
            self.gone -= int(np.count_nonzero(again))
            self.keys.entered(slots[again])
        return places

    def _save(self, places: Slots) -> None:
        """Take what frozen segments still need of places that are about to change."""
        for frozen in self.waiting:
            frozen.save(places)

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        places = self.places()
        self.changed[places] = True
        for lane in self.lanes:
            lane.store_again(places)

    def freeze(self) -> FrozenPane:
        """Hand out which places have changed, and start with none."""
        frozen = FrozenPane(self, self.changed)
        self.changed = np.zeros(self._capacity, np.bool_)
        self.stored = len(self)
        self.waiting.append(frozen)
        return frozen


class FrozenPane(FrozenSlots):
    """What a frozen segment has of a pane, whether that still lives or not."""

    __slots__ = ("pane",)

    def __init__(self, pane: Pane, pending: npt.NDArray[np.bool_]) -> None:
        super().__init__(pending)
        self.pane = pane

    def save(self, places: Slots) -> None:
        """Copy what it still needs of places that are about to change."""
        needed = places[places < len(self.pending)]
        needed = needed[self.pending[needed]]
        if len(needed):
            self.saved.append((needed, [lane.take(needed) for lane in self.pane.lanes]))
            self.pending[needed] = False

    def take(self) -> tuple[Slots, list[Column]] | None:
        """Some places that are not encoded yet, with their values as of the freeze."""
        places = self.next_pending()
        if places is not None:
            self.pending[places] = False
            return places, [lane.take(places) for lane in self.pane.lanes]
        if self in self.pane.waiting:
            self.pane.waiting.remove(self)
        return self.next_saved()
