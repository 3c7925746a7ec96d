"""Compaction: the rows of several segments into one, a few key-groups at a time.

This runs in the background of a worker, whose state may be much larger than an epoch's changes.
So it never holds a whole state, but for the compressed file it makes: nothing large is copied or
freed at once, for which the loop would have to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema import sizes
from mainstay.schema.sizes import row_sizes
from mainstay.snapshot.drops import Drops
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateFile, StateTable
from mainstay.state.merge import merge

PIECE_ROWS = 1 << 19
"""Rows that are merged at a time, about."""
PIECE_BYTES = 1 << 28
"""And their bytes, as far as these are known."""

RowsByGroup = npt.NDArray[np.int64]


class Part(Protocol):
    """A segment that takes part in a compaction."""

    @property
    def states(self) -> Sequence[str]:
        """The names of the states it has rows of."""

    def schema(self, state: str) -> pa.Schema:
        """The columns of a state's rows."""

    def drops(self, state: str) -> Drops:
        """What it drops of a state."""

    def count(self, state: str, rows: RowsByGroup) -> None:
        """Add to each key-group's number how many rows of the state it has here."""

    def row_bytes(self, state: str) -> float:
        """How many bytes a row of the state takes, about."""

    def read(self, state: str, first_group: int, last_group: int) -> StateTable:
        """The rows of a state in these key-groups, both ends included."""


class StoredPart:
    """A state file, of which a segment may be some key-groups only."""

    def __init__(self, file: StateFile, ref: SegmentRef) -> None:
        self._file = file
        self._first = ref.first_group
        self._last = ref.last_group
        self.states = file.states

    def schema(self, state: str) -> pa.Schema:
        return self._file.schema(state)

    def drops(self, state: str) -> Drops:
        return self._file.drops(state, self._first, self._last)

    def count(self, state: str, rows: RowsByGroup) -> None:
        groups, counts = self._file.counts(state)
        inside = (groups >= self._first) & (groups <= self._last)
        rows[groups[inside]] += counts[inside]

    def row_bytes(self, state: str) -> float:
        index = next(each for each in self._file.indexes if each.name == state)
        # Of compressed bytes: texts are about three times as long.
        return 3 * sum(chunk.length for chunk in index.chunks) / max(1, index.rows)

    def read(self, state: str, first_group: int, last_group: int) -> StateTable:
        return self._file.read(state, max(first_group, self._first), min(last_group, self._last))


class LoadedPart:
    """A segment that is not stored by key-group, and is held as a whole."""

    def __init__(self, tables: Iterable[StateTable]) -> None:
        by_state: dict[str, list[StateTable]] = {}
        for table in tables:
            by_state.setdefault(table.name, []).append(table)
        self._tables = {name: _joined(each) for name, each in by_state.items()}
        self.states = tuple(self._tables)

    def schema(self, state: str) -> pa.Schema:
        return self._tables[state].table.schema

    def drops(self, state: str) -> Drops:
        """Formats that are not stored by key-group say what is, and not what is gone."""
        return ()

    def count(self, state: str, rows: RowsByGroup) -> None:
        groups, counts = np.unique(self._tables[state].groups, return_counts=True)
        rows[groups] += counts

    def row_bytes(self, state: str) -> float:
        table = self._tables[state].table
        return int(table.nbytes) / max(1, int(table.num_rows))

    def read(self, state: str, first_group: int, last_group: int) -> StateTable:
        whole = self._tables[state]
        inside = (whole.groups >= first_group) & (whole.groups <= last_group)
        return StateTable(state, whole.table.filter(pa.array(inside)), whole.groups[inside])


def _joined(tables: Sequence[StateTable]) -> StateTable:
    table = pa.concat_tables([each.table for each in tables])
    return StateTable(tables[0].name, table, np.concatenate([each.groups for each in tables]))


def compacted(
    parts: Sequence[Part],
    state: str,
    *,
    to_base: bool,
    max_parallelism: int,
    prepare: Callable[[StateTable], StateTable],
) -> Iterator[StateTable]:
    """What parts, given oldest first, have of one state, merged, in the order of key-groups.

    ``prepare`` is done to what was read before it is merged.
    """
    parts = [part for part in parts if state in part.states]
    # What counts against a piece is whichever is more of it: rows, or bytes.
    weights = np.zeros(max_parallelism, np.float64)
    for part in parts:
        rows = np.zeros(max_parallelism, np.int64)
        part.count(state, rows)
        weights += rows * max(1.0, part.row_bytes(state) * PIECE_ROWS / PIECE_BYTES)
    for first, last in _ranges(weights, PIECE_ROWS):
        yield merge([prepare(part.read(state, first, last)) for part in parts], to_base=to_base)


def in_pieces(rows: StateTable) -> Iterator[StateTable]:
    """Rows in the order of key-groups, some groups at a time. Few rows are left as they are."""
    if rows.table.nbytes > sizes.ARRAY_BYTES:
        yield from _in_large_pieces(rows)
        return
    if len(rows.groups) <= PIECE_ROWS:
        yield rows
        return
    table = rows.table.combine_chunks()
    order = np.argsort(rows.groups, kind="stable")
    ends = np.searchsorted(rows.groups, np.arange(int(rows.groups.max()) + 1), "right", order)
    counts = np.diff(ends, prepend=0)
    for first, last in _ranges(counts, PIECE_ROWS):
        taken = order[ends[first] - counts[first] : ends[last]]
        yield replace(rows, table=table.take(pa.array(taken)), groups=rows.groups[taken])


def _in_large_pieces(rows: StateTable) -> Iterator[StateTable]:
    """The same for rows that do not fit into one array: they are picked out chunk by chunk."""
    by_group = np.bincount(rows.groups, weights=row_sizes(rows.table))
    for first, last in _ranges(by_group, sizes.ARRAY_BYTES // 4):
        inside = (rows.groups >= first) & (rows.groups <= last)
        yield replace(rows, table=rows.table.filter(pa.array(inside)), groups=rows.groups[inside])


def _ranges(weights: npt.NDArray[Any], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of key-groups of about so much, which is merged at a time; at least one group."""
    groups = np.flatnonzero(weights)
    pieces = (np.cumsum(weights[groups]) - 1) // most
    numbered = zip(pieces.tolist(), groups.tolist(), strict=True)
    for _, members in groupby(numbered, key=lambda pair: pair[0]):
        inside = [group for _, group in members]
        yield inside[0], inside[-1]
