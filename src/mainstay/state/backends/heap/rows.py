"""Rows by pane in the heap backend: batches by pane, and nothing for each key.

What is appended goes to the end of its pane as a chunk. Chunks are joined when somebody looks for
keys in a pane that has many, and otherwise only lest there be too many to hold: as many at once as
it takes, so that a row is copied a few times at most. Freezing hands out the batches that were
appended since the last cut, and which panes were dropped of which a frozen segment has rows.

This is a hot file (benchmarks/interval_join.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mainstay.snapshot.drops import Drops, covered, touches
from mainstay.state.codes import codes_of, grouped
from mainstay.state.dropping import DroppedPanes
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.merge import useful
from mainstay.state.operations import APPEND, PUT
from mainstay.state.rows import Chunk, Joined, as_struct, by_pane, from_struct
from mainstay.state.stored_key import PairType, StoredKey

SLICE_ROWS = 16384
SLICE_BYTES = 8 << 20
MOST_ROWS = 1 << 22
MOST_BYTES = 1 << 28
"""Rows and bytes beyond which chunks are not joined."""
SEARCHED_CHUNKS = 8
"""Chunks of a pane that are searched one by one."""
MOST_CHUNKS = 128
"""Chunks of a pane that nobody searches."""
RESTORED_BYTES = 64 << 20
"""Stored rows that are gathered before they are put into panes."""
_BEFORE = -1
"""Stands for the cuts before this attempt."""


class _Part:
    """Something that was done since the last cut: one operation for rows of one pane."""

    __slots__ = ("keys", "op", "pane", "rows")

    def __init__(self, op: int, pane: int, keys: pa.Array, rows: pa.RecordBatch) -> None:
        self.op = op
        self.pane = pane
        self.keys = keys
        self.rows = rows


class _Pane:
    """The rows of one pane. ``stored`` of them were there at cut ``cut``; where that is an earlier
    one than the current, all were."""

    __slots__ = ("chunks", "count", "cut", "is_put", "stored")

    def __init__(self, cut: int) -> None:
        self.chunks: list[Chunk] = []
        self.count = 0
        self.cut = cut
        self.stored = 0
        self.is_put = False
        """Whether only the last row of each key counts."""


class _Run(NamedTuple):
    """Chunks that are to become one, with their rows and bytes."""

    chunks: list[Chunk]
    rows: int
    size_bytes: int

    def may_join(self, newer: _Run) -> bool:
        is_small = self.rows < 2 * newer.rows and self.rows + newer.rows <= MOST_ROWS
        return is_small and self.size_bytes + newer.size_bytes <= MOST_BYTES

    def joined(self, newer: _Run) -> _Run:
        size_bytes = self.size_bytes + newer.size_bytes
        return _Run([*self.chunks, *newer.chunks], self.rows + newer.rows, size_bytes)


class HeapRows:
    """Lists of rows by key and pane."""

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        assert isinstance(stored.type, PairType)
        self.info = info
        self.stored = stored
        self.key: PairType = stored.type
        self.on_joined: Joined | None = None
        self._panes: dict[int, _Pane] = {}
        self._fresh: dict[int, list[_Part]] = {}
        self._cut = 0
        self._restored: list[pa.Table] = []
        self._restored_bytes = 0
        self._dropped = DroppedPanes()

    # ------------------------------------------------------------ reading and writing

    def panes(self) -> list[int]:
        self._settle()
        return sorted(self._panes)

    def chunks(self, pane: int, keys: pa.Array | None = None) -> Sequence[Chunk]:
        self._settle()
        found = self._panes.get(pane)
        if found is None:
            return ()
        if keys is not None:
            self._tidy(found, SEARCHED_CHUNKS)
        return found.chunks

    def append_rows(
        self, keys: pa.Array, rows: pa.RecordBatch, pane: int, note: Any = None
    ) -> None:
        self._settle()
        self._fresh.setdefault(pane, []).append(_Part(APPEND, pane, keys, rows))
        self._add(self._changing(pane), Chunk(keys, rows, note))

    def put_rows(self, keys: pa.Array, rows: pa.RecordBatch, pane: int) -> None:
        self._settle()
        self._fresh.setdefault(pane, []).append(_Part(PUT, pane, keys, rows))
        found = self._changing(pane)
        found.is_put = True
        self._add(found, Chunk(keys, rows))

    def drop_pane(self, pane: int) -> None:
        self._settle()
        if pane not in self._panes:
            return
        is_lowest = pane == min(self._panes)
        found = self._panes.pop(pane)
        self._fresh.pop(pane, None)
        # What no segment has needs no drop.
        if found.stored if found.cut == self._cut else found.count:
            self._dropped.add(pane, is_lowest=is_lowest)

    def whole_pane(self, pane: int) -> Chunk | None:
        self._settle()
        found = self._panes.get(pane)
        return None if found is None else self._counting(found)

    def _counting(self, pane: _Pane) -> Chunk:
        """The rows of a pane in one chunk, without those that were replaced."""
        chunk = self._only_chunk(pane)
        if pane.is_put:
            order, bounds = grouped(codes_of(chunk.keys))
            last = np.sort(order[bounds[1:] - 1])
            if len(last) < len(chunk):
                taken = pa.array(last)
                return Chunk(chunk.keys.take(taken), chunk.rows.take(taken))
        return chunk

    def _changing(self, pane: int) -> _Pane:
        """A pane that is about to get rows in the active segment."""
        found = self._panes.get(pane)
        if found is None:
            found = self._panes[pane] = _Pane(self._cut)
        elif found.cut != self._cut:
            found.cut, found.stored = self._cut, found.count
        return found

    def _add(self, pane: _Pane, chunk: Chunk) -> None:
        pane.chunks.append(chunk)
        pane.count += len(chunk)
        self._tidy(pane, MOST_CHUNKS)

    def _tidy(self, pane: _Pane, most: int) -> None:
        """Join chunks if there are more than ``most``, so that each is at least twice as large as
        the one behind it."""
        if len(pane.chunks) <= most:
            return
        runs: list[_Run] = []
        for chunk in pane.chunks:
            runs.append(_Run([chunk], len(chunk), chunk.rows.nbytes))
            while len(runs) > 1 and runs[-2].may_join(runs[-1]):
                last = runs.pop()
                runs[-1] = runs[-1].joined(last)
        pane.chunks = [self._joined(run.chunks) for run in runs]

    def _joined(self, old: list[Chunk]) -> Chunk:
        if len(old) == 1:
            return old[0]
        keys = pa.concat_arrays([chunk.keys for chunk in old])
        joined = Chunk(keys, pa.concat_batches([chunk.rows for chunk in old]))
        if self.on_joined is not None:
            self.on_joined(old, joined)
        return joined

    # ------------------------------------------------------------ looking from outside

    def read(self, key: Any) -> list[Any] | None:
        """The rows of a key in a pane; None where there are none."""
        kept, pane = key
        chunk = self.whole_pane(pane)
        if chunk is None:
            return None
        asked = self.stored.key.to_array([kept])
        codes = codes_of(pa.concat_arrays([chunk.keys, asked]))
        rows = np.flatnonzero(codes[:-1] == codes[-1])
        column = as_struct(self.info, chunk.rows.take(pa.array(rows)))
        return self.info.value.from_array(column) if len(rows) else None

    peek = read

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """Every pair of a key and a pane, and its rows."""
        for pane in self.panes():
            chunk = self.whole_pane(pane)
            if chunk is None:
                continue
            order, bounds = grouped(codes_of(chunk.keys))
            keys = self.stored.key.from_array(chunk.keys.take(pa.array(order[bounds[:-1]])))
            column = as_struct(self.info, chunk.rows.take(pa.array(order)))
            rows = self.info.value.from_array(column)
            ends = bounds.tolist()
            for key, start, end in zip(keys, ends[:-1], ends[1:], strict=True):
                yield (key, pane), rows[start:end]

    def bring(self, keys: Sequence[Any]) -> None:
        """All rows are here."""

    def relieve(self) -> None:
        """Nothing here grows in one piece between slices."""

    # ------------------------------------------------------------ snapshots

    def freeze(self) -> list[_Part | DroppedPanes]:
        """Hand out what was done since the last cut."""
        self._settle()
        parts = [part for done in self._fresh.values() for part in done]
        dropped, self._dropped = self._dropped, DroppedPanes()
        self._fresh = {}
        self._cut += 1
        return [*([dropped] if dropped else ()), *parts]

    def leftovers(self, parts: Sequence[_Part]) -> list[Any]:
        """Arrays are freed at once."""
        return []

    def repeats_keys(self, parts: Sequence[_Part]) -> bool:
        return any(part.op == PUT for part in parts)

    def encode(self, parts: Sequence[_Part]) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        gathered: list[_Part] = []
        rows = size = 0
        for part in parts:
            gathered.append(part)
            rows += len(part.keys)
            size += part.keys.nbytes + part.rows.nbytes
            if rows >= SLICE_ROWS or size >= SLICE_BYTES:
                yield self._columns(gathered)
                gathered, rows, size = [], 0, 0
        if gathered:
            yield self._columns(gathered)

    def _columns(self, parts: Sequence[_Part]) -> list[pa.Array]:
        lengths = [len(part.keys) for part in parts]
        panes = np.repeat(np.array([part.pane for part in parts], np.int64), lengths)
        ops = np.repeat(np.array([part.op for part in parts], np.int8), lengths)
        arrays = [pa.concat_arrays([part.keys for part in parts]), self._namespaces(panes)]
        pairs = pa.StructArray.from_arrays(arrays, fields=list(self.key.arrow))
        # One row has one element.
        offsets = np.arange(len(ops) + 1, dtype=np.int32)
        flat = pa.concat_arrays([as_struct(self.info, part.rows) for part in parts])
        return [pairs, pa.array(ops), pa.ListArray.from_arrays(pa.array(offsets), flat)]

    def _namespaces(self, panes: np.ndarray) -> pa.Array:
        return pa.array(panes).cast(self.key.namespace.arrow)

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        self._settle()
        self._fresh, self._dropped = {}, DroppedPanes()
        for number, pane in self._panes.items():
            pane.cut, pane.stored = self._cut, 0
            op = PUT if pane.is_put else APPEND
            if pane.is_put:
                chunk = self.whole_pane(number)
                assert chunk is not None
                pane.chunks, pane.count = [chunk], len(chunk)
            self._fresh[number] = [_Part(op, number, c.keys, c.rows) for c in pane.chunks]

    # ------------------------------------------------------------ restore

    def apply_drops(self, drops: Drops, max_parallelism: int) -> None:
        """Forget what stored drops are of, without making that a change again."""
        self._settle()
        for number in [each for each in self._panes if touches(drops, each)]:
            pane = self._panes[number]
            chunk = self._only_chunk(pane)
            groups = key_groups([chunk.keys], max_parallelism)
            self._keep(number, ~covered(drops, np.full(len(chunk), number, np.int64), groups))

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        self._restored.append(rows)
        self._restored_bytes += rows.nbytes
        if self._restored_bytes > RESTORED_BYTES:
            self._settle()

    def _settle(self) -> None:
        """Put what was restored into panes."""
        if not self._restored:
            return
        table = pa.concat_tables(self._restored).combine_chunks()
        self._restored, self._restored_bytes = [], 0
        self._replace(table.filter(pa.array(table.column("op").to_numpy() != APPEND)))
        table = table.filter(pa.array(useful(table)))
        lists = table.column("value").combine_chunks()
        lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        taken = pa.array(np.repeat(np.arange(len(lengths)), lengths))
        keys = table.column("key").combine_chunks().take(taken)
        panes = _numbers(table.column("namespace").combine_chunks())[taken.to_numpy()]
        found = from_struct(self.info, lists.flatten())
        for pane, some_keys, rows in by_pane(keys, found, panes):
            # All of it is stored: it counts as of an earlier cut.
            self._add(self._panes.setdefault(pane, _Pane(_BEFORE)), Chunk(some_keys, rows))

    def _replace(self, overriding: pa.Table) -> None:
        """Take out of the panes what stored rows delete or replace."""
        if not overriding.num_rows or not self._panes:
            return
        keys = overriding.column("key").combine_chunks()
        panes = _numbers(overriding.column("namespace").combine_chunks())
        for number in np.unique(panes).tolist():
            pane = self._panes.get(number)
            if pane is not None:
                self._without(pane, number, keys.filter(pa.array(panes == number)))

    def _without(self, pane: _Pane, number: int, keys: pa.Array) -> None:
        chunk = self._only_chunk(pane)
        codes = codes_of(pa.concat_arrays([chunk.keys, keys]))
        self._keep(number, ~np.isin(codes[: len(chunk)], codes[len(chunk) :]))

    def _only_chunk(self, pane: _Pane) -> Chunk:
        """All rows of a pane as one chunk."""
        pane.chunks = [self._joined(pane.chunks)]
        return pane.chunks[0]

    def _keep(self, number: int, kept: np.ndarray) -> None:
        """Keep some rows of a pane that has one chunk."""
        if not kept.any():
            del self._panes[number]
            return
        pane, mask = self._panes[number], pa.array(kept)
        (chunk,) = pane.chunks
        pane.chunks = [Chunk(chunk.keys.filter(mask), chunk.rows.filter(mask))]
        pane.count = len(pane.chunks[0])


def _numbers(column: pa.Array) -> np.ndarray:
    numbers: np.ndarray = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers
