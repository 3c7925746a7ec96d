"""The columnar table of the heap for a state with a namespace: panes, which go as a whole.

All panes number their keys by one table, so that a key is looked up once for a batch however many
panes it is in. That table only grows. When it has come to hold many more keys than are in any pane,
panes that are new from then on share another one, and it goes with the last of its panes: memory
follows the keys that are live, and nothing is ever rebuilt in one go.

What is dropped before any segment was frozen leaves no trace in files. Of the rest a segment says
which panes are gone, and nothing of their keys.

This is a hot file (benchmarks/windows.py).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema.sizes import combined
from mainstay.snapshot.drops import Drops, covered, touches
from mainstay.state.accumulating import Accumulating, Column, DoesNotFitError, accumulating
from mainstay.state.backends.heap.lanes import lanes_of, ops_of, rows_of
from mainstay.state.backends.heap.pane import FrozenPane, LiveKeys, LiveSets, Pane
from mainstay.state.backends.heap.slotted import SLICE_ROWS
from mainstay.state.columns import word_of, words_as
from mainstay.state.dropping import DroppedPanes
from mainstay.state.grouping import Grouper, Words, words_of
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.merge import one_for_each
from mainstay.state.operations import DELETE, PUT
from mainstay.state.slots import Slots
from mainstay.state.stored_key import StoredKey

_FEW_KEYS = 1 << 12
"""A table of keys that is no larger is not worth another one."""
_FADING = 0.9
"""How fast it is forgotten how many keys were live, by dropped panes."""

Part = FrozenPane | DroppedPanes


class HeapPanes:
    """One row of accumulators per key and namespace, which is a whole number underneath."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        assert stored.namespace is not None
        self.info = info
        self.stored = stored
        self.key = stored.type
        self.parts: list[Accumulating] = [accumulating(each) for each in info.function]
        self._namespace = stored.namespace
        self._keys = LiveKeys(stored.key)
        self._sets = LiveSets(self.parts)
        self._recent = 0.0
        """How many keys were live lately."""
        self._panes: dict[int, Pane] = {}
        self._order: list[int] = []
        self._changed: dict[int, Pane] = {}
        self._dropped = DroppedPanes()
        self._grouper = Grouper()

    # ------------------------------------------------------------ writing

    def fold(self, pairs: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct pairs; what is
        kept for them then."""
        keys, namespaces = pairs.flatten()
        groups = self._grouper.group(keys)
        codes = np.arange(len(keys)) if groups.codes is None else groups.codes
        keys = keys if groups.codes is None else keys.take(pa.array(groups.rows))
        out: list[Column] = [
            (
                np.empty(len(codes), part.dtype),
                np.ones(len(codes), np.bool_) if part.may_be_null else None,
            )
            for part in self.parts
        ]
        for entries, merged in self._folded(keys, codes, words_of(namespaces), partials):
            kept = [part.apart(c) for part, c in zip(self.parts, merged, strict=True)]
            for (values, valid), (new, is_new) in zip(out, kept, strict=True):
                values[entries] = new
                if valid is not None and is_new is not None:
                    valid[entries] = is_new
        return out

    def fold_into(
        self, keys: pa.Array, codes: Slots, namespaces: Words, partials: Sequence[Column]
    ) -> None:
        """The same for pairs of a key, by its number among distinct ones, and a namespace."""
        for _ in self._folded(keys, codes, namespaces, partials):
            pass

    def _folded(
        self, keys: pa.Array, codes: Slots, namespaces: Words, partials: Sequence[Column]
    ) -> Iterator[tuple[Any, list[Column]]]:
        """Pane by pane: which entries are in it, and what is then kept for them."""
        slots_of = _SlotsOf(keys, codes)
        for namespace, entries in _by_namespace(namespaces):
            pane = self._panes.get(namespace)
            pane = self._new(namespace) if pane is None else pane
            slots = slots_of(pane.keys, entries)
            given = [_some(partial, entries) for partial in partials]
            try:
                merged = pane.fold(slots, given)
            except DoesNotFitError as error:
                at = int(np.arange(len(codes))[entries][error.position])
                raise DoesNotFitError(error.accumulator, at) from None
            self._changed[namespace] = pane
            yield entries, merged

    # ------------------------------------------------------------ panes

    def panes(self) -> list[int]:
        """The namespaces that anything is kept for, in order."""
        return self._order.copy()

    def pane(self, namespace: int) -> tuple[pa.Array, list[Column]]:
        """The keys of a namespace, and what is kept for each."""
        pane = self._panes[namespace]
        places = pane.places()
        return pane.keys.slots.keys(pane.slots(places)), pane.columns(places)

    def drop(self, namespace: int) -> None:
        """Forget a namespace with all its keys."""
        is_lowest = self._order[0] == namespace
        pane = self._gone(namespace)
        self._changed.pop(namespace, None)
        self._recent = max(_FADING * self._recent, pane.keys.live)
        pane.keys.left(pane.slots(pane.places()))
        if pane.stored:
            self._dropped.add(namespace, is_lowest=is_lowest)
        if len(self._keys) > 2 * self._recent + _FEW_KEYS:
            self._keys = LiveKeys(self.stored.key)
        self._leave_sets(pane)

    def _leave_sets(self, gone: Pane) -> None:
        """Let panes that are new from now on share other sets, if most values of these are gone."""
        sets = gone.sets
        if sets is not self._sets or not len(sets):
            return
        sets.dead += gone.distinct()
        if 2 * sets.dead > len(sets) + _FEW_KEYS:
            self._sets = LiveSets(self.parts)

    def _new(self, namespace: int) -> Pane:
        lanes = lanes_of(self.parts, self.info, self._sets.of)
        pane = self._panes[namespace] = Pane(namespace, self._keys, lanes, self._sets)
        insort(self._order, namespace)
        return pane

    def _gone(self, namespace: int) -> Pane:
        del self._order[bisect_left(self._order, namespace)]
        return self._panes.pop(namespace)

    # ------------------------------------------------------------ reading

    def read(self, pair: Any) -> Any:
        """What is kept for a pair, as a row; None where nothing is."""
        key, namespace = pair
        pane = self._panes.get(word_of(self._namespace, namespace))
        slot = None if pane is None else pane.keys.slots.find(key)
        place = None if pane is None or slot is None else pane.find(slot)
        if pane is None or place is None:
            return None
        return self.info.value.from_array(self._rows(pane, np.array([place])))[0]

    def peek(self, pair: Any) -> Any:
        """The same, without a trace of the look."""
        return self.read(pair)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every pair and its row."""
        for namespace in self.panes():
            pane = self._panes[namespace]
            places = pane.places()
            for start in range(0, len(places), SLICE_ROWS):
                some = places[start : start + SLICE_ROWS]
                pairs = self.key.from_array(self._pairs(pane.keys, pane.slots(some), namespace))
                rows = self.info.value.from_array(self._rows(pane, some))
                yield from zip(pairs, rows, strict=True)

    def _rows(self, pane: Pane, places: Slots) -> pa.Array:
        return rows_of(pane.lanes, [lane.whole(places) for lane in pane.lanes], self.info)

    # ------------------------------------------------------------ snapshots

    def freeze(self) -> list[Part]:
        """Hand out which panes were dropped, and which places of which others have changed."""
        changed, self._changed = self._changed, {}
        dropped, self._dropped = self._dropped, DroppedPanes()
        return [*([dropped] if dropped else ()), *(pane.freeze() for pane in changed.values())]

    def relieve(self) -> None:
        """Nothing here grows in one piece between slices."""

    def leftovers(self, parts: Sequence[FrozenPane]) -> list[FrozenPane]:
        """Arrays are freed at once."""
        return []

    def repeats_keys(self, parts: Sequence[FrozenPane]) -> bool:
        """A place that has changed is written once."""
        return False

    def encode(self, parts: Sequence[FrozenPane]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        for part in parts:
            yield from tuple(part.encoded)
            while (taken := part.take()) is not None:
                places, columns = taken
                pane = part.pane
                pairs = self._pairs(pane.keys, pane.slots(places), pane.namespace)
                arrays = [pairs, ops_of(columns), rows_of(pane.lanes, columns, self.info)]
                # Before anything else can run: what was taken is nowhere else any more.
                part.encoded.append(arrays)
                yield arrays

    def _pairs(self, keys: LiveKeys, slots: Slots, namespace: int) -> pa.Array:
        namespaces = words_as(self._namespace, np.full(len(slots), namespace, np.int64))
        arrays = [keys.slots.keys(slots), namespaces]
        return pa.StructArray.from_arrays(arrays, fields=list(self.key.arrow))

    def apply_drops(self, drops: Drops, max_parallelism: int) -> None:
        """Forget what stored drops are of, without making that a change again."""
        for namespace in self.panes():
            if not touches(drops, namespace):
                continue
            pane = self._panes[namespace]
            places = pane.places()
            groups = key_groups([pane.keys.slots.keys(pane.slots(places))], max_parallelism)
            gone = covered(drops, np.full(len(places), namespace, np.int64), groups)
            pane.clear(places[gone])
            if pane.gone == len(pane):
                self._gone(namespace)

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        rows = one_for_each(rows)
        value = combined(rows.column("value"))
        self._apply(self.stored.column(rows), value, rows.column("op").to_numpy())

    def _apply(self, pairs: pa.Array, value: pa.Array, ops: npt.NDArray[np.int8]) -> None:
        """Rows of distinct pairs."""
        keys, namespaces = pairs.flatten()
        groups = self._grouper.group(keys)
        codes = np.arange(len(keys)) if groups.codes is None else groups.codes
        keys = keys if groups.codes is None else keys.take(pa.array(groups.rows))
        slots_of = _SlotsOf(keys, codes)
        for namespace, entries in _by_namespace(words_of(namespaces)):
            pane = self._panes.get(namespace)
            pane = self._new(namespace) if pane is None else pane
            slots, of_pane = slots_of(pane.keys, entries), ops[entries]
            stays = of_pane != DELETE
            rows = pa.array(np.arange(len(ops))[entries][stays])
            pane.delete(slots[~stays])
            pane.apply(slots[stays], value.take(rows).flatten(), of_pane[stays] == PUT)
            if pane.gone == len(pane):
                self._gone(namespace)

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        self._dropped = DroppedPanes()
        self._changed = dict(self._panes)
        for pane in self._panes.values():
            pane.mark_all_changed()


class _SlotsOf:
    """The slots of the keys of some entries: looked up once where all panes share a table."""

    def __init__(self, keys: pa.Array, codes: Slots) -> None:
        self._keys, self._codes = keys, codes
        self._shared: LiveKeys | None = None
        self._slots: Slots | None = None

    def __call__(self, keys: LiveKeys, entries: Any) -> Slots:
        if self._shared is None:
            self._shared, self._slots = keys, keys.slots.of(self._keys)[self._codes]
        if keys is self._shared:
            assert self._slots is not None
            shared: Slots = self._slots[entries]
            return shared
        some, codes = np.unique(self._codes[entries], return_inverse=True)
        found: Slots = keys.slots.of(self._keys.take(pa.array(some)))[codes]
        return found


def _by_namespace(namespaces: Words) -> Iterator[tuple[int, Any]]:
    """Each namespace with its entries: a slice where it is the only one, or else numbers."""
    if not len(namespaces):
        return
    first, last = int(namespaces.min()), int(namespaces.max())
    if first == last:
        yield first, slice(None)
        return
    order = np.argsort(namespaces, kind="stable")
    ordered = namespaces[order]
    bounds = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
    for start, end in pairwise(bounds):
        yield int(ordered[start]), order[start:end]


def _some(column: Column, entries: Any) -> Column:
    values, valid = column
    return values[entries], None if valid is None else valid[entries]
