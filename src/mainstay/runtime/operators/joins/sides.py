"""One side of a join: how its rows are read, kept by pane, and found again.

A row that is kept may have to be known again, because it has matched: then it has a number, and the
numbers of those that have matched are a state of their own. So a match costs a number in a
snapshot, and never the row once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.joins import JoinShape, JoinSide
from mainstay.runtime.operators.joins.matching import (
    Mask,
    Numbers,
    Sorted,
    are_equal,
    are_exact,
    pairs,
    words_for,
)
from mainstay.state.codes import codes_of
from mainstay.state.grouping import words_of
from mainstay.state.rows import Chunk, RowsHandle, by_pane, schema_of


class Arrived:
    """Rows of one side: their keys, their times, and what is kept of them."""

    __slots__ = ("keys", "rows", "times", "words")

    def __init__(
        self, keys: pa.Array, words: Numbers, times: Numbers, rows: pa.RecordBatch
    ) -> None:
        self.keys, self.words, self.times, self.rows = keys, words, times, rows

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, mask: Mask) -> Arrived:
        if mask.all():
            return self
        where = pa.array(mask)
        return Arrived(
            self.keys.filter(where), self.words[mask], self.times[mask], self.rows.filter(where)
        )


class Asking:
    """Rows that ask for others of their key, from one time to another, in the order of their keys.

    ``rows`` are their numbers among those that have arrived.
    """

    __slots__ = ("high", "keys", "low", "rows", "words")

    def __init__(self, arrived: Arrived, low: Numbers, high: Numbers) -> None:
        self.keys = arrived.keys
        self.rows = np.argsort(arrived.words)
        self.words, self.low, self.high = arrived.words[self.rows], low[self.rows], high[self.rows]


class Note:
    """What a join keeps in mind of a chunk: its order, and which rows have matched."""

    __slots__ = ("flags", "index")

    def __init__(self, index: Sorted | None = None, flags: Mask | None = None) -> None:
        self.index, self.flags = index, flags


def joined_notes(old: Sequence[Chunk], joined: Chunk) -> None:
    flags = [None if chunk.note is None else chunk.note.flags for chunk in old]
    known = [each for each in flags if each is not None]
    # Where one is unknown, all are found anew from the state.
    joined.note = Note(flags=np.concatenate(known) if len(known) == len(old) else None)


class Reader:
    """Reads the batches of one side."""

    def __init__(self, side: JoinSide) -> None:
        self._side = side
        self.schema = pa.schema(side.fields)
        kept = side.kept
        self.time = None if side.time is None else kept.index(side.time)
        self._end = None if side.end is None else kept.index(side.end)

    def keys(self, batch: pa.RecordBatch) -> pa.Array:
        key = self._side.key
        columns = [batch.column(number) for number in key.columns]
        if len(columns) == 1:
            return columns[0]
        return pa.StructArray.from_arrays(columns, fields=list(key.type.arrow))

    def arrived(self, batch: pa.RecordBatch, keys: pa.Array) -> Arrived:
        """The rows of a batch, of which none has a null in its key."""
        return Arrived(keys, words_for(keys), self.times_of(batch), self.kept(batch))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a batch that are kept."""
        columns = [batch.column(number) for number in self._side.kept]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def times_of(self, batch: pa.RecordBatch) -> Numbers:
        """The times of a batch's rows."""
        if self._side.time is None:
            return np.zeros(batch.num_rows, np.int64)
        return words_of(batch.column(self._side.time)) + self._side.shift_us

    def times(self, rows: pa.RecordBatch) -> Numbers:
        """The times of kept rows; zeros where the join goes by none."""
        if self.time is None:
            return np.zeros(rows.num_rows, np.int64)
        return words_of(rows.column(self.time)) + self._side.shift_us

    def ends_of(self, batch: pa.RecordBatch) -> Numbers:
        """Until when a batch's rows say that they match."""
        assert self._side.end is not None
        return words_of(batch.column(self._side.end))

    def ends(self, rows: pa.RecordBatch) -> Numbers:
        """Until when kept rows say that they match."""
        assert self._end is not None
        return words_of(rows.column(self._end))

    def pane_times(self, rows: pa.RecordBatch) -> Numbers:
        """By what kept rows are divided into panes."""
        return self.times(rows) if self._end is None else self.ends(rows)

    def has_time(self, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch have a time, and an end where they need one; None if all have."""
        numbers = [each for each in (self._side.time, self._side.end) if each is not None]
        valid = [
            batch.column(number).is_valid().to_numpy(zero_copy_only=False)
            for number in numbers
            if batch.column(number).null_count
        ]
        return np.logical_and.reduce(valid) if valid else None


class Kept:
    """The rows of one side that are kept, and which of them have matched."""

    def __init__(self, shape: JoinShape, side: int, handles: Any) -> None:
        self.shape, self.side = shape, side
        self.reader = Reader(shape.sides[side])
        info = shape.rows_state(side)
        self.rows: RowsHandle = handles[info.name]
        self.rows.on_joined(joined_notes)
        self._schema = schema_of(info)
        self.is_flagged = shape.is_flagged(side)
        self._is_exact = are_exact(shape.sides[side].key.type.arrow)
        self._next = 0
        if self.is_flagged:
            matched = shape.matched_state(side)
            self.matched: RowsHandle = handles[matched.name]
            self._matched_schema = schema_of(matched)
            self._next = self._first_number()

    def _first_number(self) -> int:
        """A number above those of all rows: of a key none may have the same as another."""
        highest = -1
        for pane in self.rows.panes():
            for chunk in self.rows.chunks(pane):
                highest = max(highest, int(self._numbers(chunk).max(initial=-1)))
        return highest + 1

    def _numbers(self, chunk: Chunk) -> Numbers:
        return words_of(chunk.rows.column(chunk.rows.num_columns - 1))

    def visible(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without their numbers."""
        return rows.select(range(rows.num_columns - 1)) if self.is_flagged else rows

    # ------------------------------------------------------------ writing

    def keep(self, arrived: Arrived, panes: Numbers | int, have_matched: Mask) -> None:
        """Keep rows, of which some have matched."""
        if not self.is_flagged:
            self.rows.append(arrived.keys, arrived.rows, panes)
            return
        numbers = pa.array(np.arange(self._next, self._next + len(arrived)))
        self._next += len(arrived)
        columns = [*arrived.rows.columns, numbers]
        numbered = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._keep_flagged(arrived.keys, numbered, panes, have_matched)

    def _keep_flagged(
        self, keys: pa.Array, rows: pa.RecordBatch, panes: Numbers | int, flags: Mask
    ) -> None:
        # The flags go along to their panes, and are taken off again there.
        names = [*self._schema.names, ""]
        both = pa.RecordBatch.from_arrays([*rows.columns, pa.array(flags)], names=names)
        for pane, some_keys, some in by_pane(keys, both, panes):
            matched = np.array(some.column(some.num_columns - 1).to_numpy(zero_copy_only=False))
            numbered = pa.RecordBatch.from_arrays(some.columns[:-1], schema=self._schema)
            self.rows.append_to(some_keys, numbered, pane, Note(flags=matched))
            if matched.any():
                numbers = words_of(numbered.column(numbered.num_columns - 1))
                self._note(some_keys, numbers, matched, pane)

    def repane(self, pane_us: int) -> None:
        """Divide what is kept into panes of another length."""
        found = []
        for pane in self.rows.panes():
            chunk = Chunk(*self.rows.rows(pane))
            flags = self.flags(chunk, pane) if self.is_flagged else np.zeros(0, np.bool_)
            found.append((chunk, flags))
            self.drop(pane)
        for chunk, flags in found:
            times = self.reader.pane_times(chunk.rows)
            panes = times - times % pane_us
            if self.is_flagged:
                self._keep_flagged(chunk.keys, chunk.rows, panes, flags)
            else:
                self.rows.append(chunk.keys, chunk.rows, panes)

    def _note(self, keys: pa.Array, numbers: Numbers, which: Mask, pane: int) -> None:
        rows = pa.RecordBatch.from_arrays([pa.array(numbers[which])], schema=self._matched_schema)
        self.matched.append(keys.filter(pa.array(which)), rows, pane)

    def flag(self, chunk: Chunk, pane: int, places: Numbers) -> Mask:
        """Note that rows of a chunk have matched; which of them had not before."""
        flags = self.flags(chunk, pane)
        fresh = np.zeros(len(chunk), np.bool_)
        fresh[places] = True
        fresh &= ~flags
        if fresh.any():
            flags |= fresh
            self._note(chunk.keys, self._numbers(chunk), fresh, pane)
        return fresh

    def flags(self, chunk: Chunk, pane: int) -> Mask:
        """Which rows of a chunk have matched."""
        if chunk.note is None:
            chunk.note = Note()
        note: Note = chunk.note
        if note.flags is None:
            note.flags = self._stored_flags(chunk, pane)
        return note.flags

    def _stored_flags(self, chunk: Chunk, pane: int) -> Mask:
        noted = self.matched.chunks(pane, chunk.keys)
        if not noted:
            return np.zeros(len(chunk), np.bool_)
        keys = pa.concat_arrays([chunk.keys, *(each.keys for each in noted)])
        numbers = np.concatenate([self._numbers(each) for each in (chunk, *noted)])
        fields = [pa.field("key", keys.type), pa.field("number", pa.int64())]
        both = pa.StructArray.from_arrays([keys, pa.array(numbers)], fields=fields)
        codes = codes_of(both)
        return np.isin(codes[: len(chunk)], codes[len(chunk) :])

    def drop(self, pane: int) -> None:
        self.rows.drop(pane)
        if self.is_flagged:
            self.matched.drop(pane)

    # ------------------------------------------------------------ finding

    def index(self, chunk: Chunk) -> Sorted:
        if chunk.note is None:
            chunk.note = Note()
        note: Note = chunk.note
        if note.index is None:
            note.index = Sorted(words_for(chunk.keys), self.reader.times(chunk.rows))
        return note.index

    def matches(self, chunk: Chunk, asking: Asking) -> Iterator[tuple[Numbers, Numbers]]:
        """The rows of another side with the places of a chunk that they match, some at a time."""
        index = self.index(chunk)
        for found, others in pairs(*index.ranges(asking.words, asking.low, asking.high)):
            rows, places = asking.rows[found], index.order[others]
            if not self._is_exact:
                ours, theirs = chunk.keys.take(pa.array(places)), asking.keys.take(pa.array(rows))
                same = are_equal(ours, theirs)
                rows, places = rows[same], places[same]
            if len(rows):
                yield rows, places
