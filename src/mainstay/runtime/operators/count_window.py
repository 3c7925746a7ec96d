"""Windows of a number of rows, aggregated by key: the last so many, each time that more have come.

The rows of a key are numbered as they come, and fall into slices whose length divides both the size
of a window and the distance of two. A slice is a span of state; a window is put together from its
slices when its last row has come. Slices that no window to come contains go, but for the newest one
of a key, which says how many rows there were.

This is a hot file (benchmarks/sessions.py).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.operators.aggregate import Gathering
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.made_for import check_made_for
from mainstay.runtime.operators.session import merge_into, some_of
from mainstay.runtime.spec import KeySpec
from mainstay.state.accumulating import (
    Column,
    accumulating,
)
from mainstay.state.aggregates import Accumulator, Aggregation
from mainstay.state.grouping import Groups
from mainstay.state.span_places import NONE
from mainstay.state.spans import SpansHandle

SLICES = "slices"
"""The name of the state."""
ROWS = Accumulator("window_rows", "count", pa.int64(), None, "window_rows")
"""What is kept of a slice beside its aggregates: how many rows it has."""

Numbers = npt.NDArray[np.int64]


class CountByKey(Gathering):
    """Aggregates of the last ``size`` rows of each key, at each ``every``-th."""

    def __init__(
        self,
        key: KeySpec,
        aggregation: Aggregation,
        schema: pa.Schema,
        size: int,
        every: int,
        order: tuple[int, ...],
    ) -> None:
        super().__init__(key, aggregation, schema)
        self._size = size
        self._every = every
        self._slice = math.gcd(size, every)
        self._order = order
        self._counting = accumulating(ROWS)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._state: SpansHandle = context.keyed.handles[SLICES]
        made_for = f"windows of {self._size} rows every {self._every}"
        check_made_for(context, made_for, is_empty=lambda: not len(self._state.all()))

    def take(self, batch: pa.RecordBatch) -> None:
        keys = self.key_column(batch)
        by_key = self._grouper.group(keys)
        codes = np.arange(len(keys)) if by_key.codes is None else by_key.codes
        keys = keys if by_key.codes is None else keys.take(pa.array(by_key.rows))
        before, stored = self._stored(keys)
        after = before + np.bincount(codes, minlength=len(keys))
        slices = _joined(stored, self._new(batch, keys, codes, before, stored))
        windows, ends = self._ended(before, after)
        columns = self._merged(slices, keys, windows, ends)
        self._keep(keys, slices, after)
        if len(windows):
            self._emit(keys.take(pa.array(windows)), columns)

    def _stored(self, keys: pa.Array) -> tuple[Numbers, _Slices]:
        """How many rows keys had so far, and the slices that are kept."""
        codes, places = self._state.of(keys)
        columns = self._state.columns(places)
        numbers = self._state.starts(places)
        before = np.zeros(len(keys), np.int64)
        np.maximum.at(before, codes, numbers * self._slice + columns[-1][0])
        return before, _Slices(codes, numbers, columns, places)

    def _new(
        self,
        batch: pa.RecordBatch,
        keys: pa.Array,
        codes: Numbers,
        before: Numbers,
        stored: _Slices,
    ) -> _Slices:
        """The slices of rows. One that was begun takes the place of what is stored of it."""
        order = np.argsort(codes, kind="stable")
        of = codes[order]
        firsts = np.flatnonzero(np.diff(of, prepend=-1))
        ranks = np.arange(len(of)) - np.repeat(firsts, np.diff(firsts, append=len(of)))
        numbers = (before[of] + ranks) // self._slice
        begins = np.diff(of, prepend=-1) != 0
        begins[1:] |= numbers[1:] != numbers[:-1]
        first = np.flatnonzero(begins)
        group = np.empty(len(of), np.int64)
        group[order] = np.cumsum(begins) - 1
        groups = Groups(order[first], group)
        with self.blamed(keys, of[first]):
            columns = self.combined_apart(batch, groups)
        columns.append((np.bincount(group, minlength=len(first)), None))
        new = _Slices(of[first], numbers[first], columns, np.full(len(first), NONE, np.int64))
        self._go_on(new, keys, stored)
        return new

    def _go_on(self, new: _Slices, keys: pa.Array, stored: _Slices) -> None:
        """Merge slices that were begun into those that go on with them."""
        begun = np.flatnonzero(stored.columns[-1][0] < self._slice)
        if not len(begun):
            return
        place = np.full(len(keys), NONE, np.int64)
        place[stored.codes[begun]] = begun
        is_first = np.diff(new.codes, prepend=-1) != 0
        into = np.flatnonzero(is_first & (place[new.codes] >= 0))
        met = place[new.codes[into]]
        with self.blamed(keys, new.codes[into]):
            merge_into(new.columns, into, stored.columns, met, [*self._parts, self._counting])
        new.places[into] = stored.places[met]
        stored.forget(met)

    def _ended(self, before: Numbers, after: Numbers) -> tuple[Numbers, Numbers]:
        """The windows whose last row has come: the key and the number of that row, of each."""
        counts = after // self._every - before // self._every
        codes = np.repeat(np.arange(len(counts)), counts)
        ranks = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        return codes, (before[codes] // self._every + ranks + 1) * self._every

    def _merged(
        self, slices: _Slices, keys: pa.Array, codes: Numbers, ends: Numbers
    ) -> list[Column]:
        """What is kept of the slices of windows, one after the other."""
        if not len(codes):
            return []
        # Slices are in order of key and number, so those of a window follow each other.
        low = int(slices.numbers.min())
        width = int(slices.numbers.max()) - low + 2
        places = slices.codes * width + (slices.numbers - low)
        last = ends // self._slice
        from_ = np.maximum(last - self._size // self._slice, low)
        first = np.searchsorted(places, codes * width + (from_ - low))
        end = np.searchsorted(places, codes * width + (last - low))
        columns = [some_of(column, first) for column in slices.columns[:-1]]
        for step in range(1, int((end - first).max(initial=0))):
            there = np.flatnonzero(first + step < end)
            with self.blamed(keys, codes[there]):
                self._add(columns, there, slices, first[there] + step)
        return columns

    def _add(self, columns: list[Column], there: Numbers, slices: _Slices, next_: Numbers) -> None:
        """Merge slices, which are newer, into what there is of windows."""
        for number, part in enumerate(self._parts):
            values, valid = columns[number]
            more = some_of(slices.columns[number], next_)
            values[there], is_valid = part.merge(some_of((values, valid), there), more)
            if valid is not None:
                valid[there] = True if is_valid is None else is_valid

    def _keep(self, keys: pa.Array, slices: _Slices, after: Numbers) -> None:
        """Keep the slices that windows to come contain, and forget the others."""
        following = (after // self._every + 1) * self._every
        oldest = (following - self._size) // self._slice
        is_needed = slices.numbers >= oldest[slices.codes]
        # Where none is needed, one of them says how many rows there were, unless that is as good as
        # none: then the next window begins as the first did.
        is_last = np.diff(slices.codes, append=-1) != 0
        is_needed |= is_last & (after[slices.codes] % self._every != 0)
        is_there = slices.places >= 0
        self._state.remove(slices.places[is_there & ~is_needed])
        again = is_there & is_needed & slices.changed
        self._state.put(slices.places[again], [some_of(c, again) for c in slices.columns])
        new = ~is_there & is_needed
        columns = [some_of(column, new) for column in slices.columns]
        self._state.add(keys, slices.codes[new], slices.numbers[new], columns)

    def _emit(self, keys: pa.Array, columns: list[Column]) -> None:
        own = [keys] if len(self._key.columns) == 1 else keys.flatten()
        found = [*own, *self.outputs(keys, columns)]
        arrays = [found[number] for number in self._order]
        self.out(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class _Slices:
    """Slices of keys: the number of the key and of the slice, what is kept, and where."""

    __slots__ = ("changed", "codes", "columns", "numbers", "places")

    def __init__(
        self, codes: Numbers, numbers: Numbers, columns: list[Column], places: Numbers
    ) -> None:
        self.codes = codes
        self.numbers = numbers
        self.columns = columns
        self.places = places
        self.changed = np.zeros(len(codes), np.bool_)

    def forget(self, which: Numbers) -> None:
        keep = np.ones(len(self.codes), np.bool_)
        keep[which] = False
        self.take(np.flatnonzero(keep))

    def take(self, which: Numbers) -> None:
        self.codes, self.numbers = self.codes[which], self.numbers[which]
        self.columns = [some_of(column, which) for column in self.columns]
        self.places, self.changed = self.places[which], self.changed[which]


def _joined(stored: _Slices, new: _Slices) -> _Slices:
    """Both, in the order of key and number. Those that are new have changed."""
    new.changed[:] = True
    pairs = zip(stored.columns, new.columns, strict=True)
    both = _Slices(
        np.concatenate([stored.codes, new.codes]),
        np.concatenate([stored.numbers, new.numbers]),
        [_concatenated(*pair) for pair in pairs],
        np.concatenate([stored.places, new.places]),
    )
    both.changed = np.concatenate([stored.changed, new.changed])
    both.take(np.lexsort((both.numbers, both.codes)))
    return both


def _concatenated(first: Column, second: Column) -> Column:
    values = np.concatenate([first[0], second[0]])
    if first[1] is None and second[1] is None:
        return values, None
    valid = [np.ones(len(v), np.bool_) if is_ is None else is_ for v, is_ in (first, second)]
    return values, np.concatenate(valid)
