"""Compaction: the rows of several segments into one, a few key-groups at a time.

This runs beside the loop of a worker, whose state may be much larger than what changes in an epoch.
So it never holds a whole state, but for the compressed file it makes: nothing large is copied or
freed at once, for which the loop would have to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateFile, StateTable
from mainstay.state.merge import merge

PIECE_ROWS = 1 << 19
"""Rows that are merged at a time, about."""

RowsByGroup = npt.NDArray[np.int64]


class Part(Protocol):
    """A segment that takes part in a compaction."""

    @property
    def states(self) -> Sequence[str]:
        """The names of the states it has rows of."""

    def schema(self, state: str) -> pa.Schema:
        """The columns of a state's rows."""

    def count(self, state: str, rows: RowsByGroup) -> None:
        """Add to each key-group's number how many rows of the state it has here."""

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

    def count(self, state: str, rows: RowsByGroup) -> None:
        groups, counts = self._file.counts(state)
        inside = (groups >= self._first) & (groups <= self._last)
        rows[groups[inside]] += counts[inside]

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

    def count(self, state: str, rows: RowsByGroup) -> None:
        groups, counts = np.unique(self._tables[state].groups, return_counts=True)
        rows[groups] += counts

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
    rows = np.zeros(max_parallelism, np.int64)
    for part in parts:
        part.count(state, rows)
    for first, last in _ranges(rows):
        yield merge([prepare(part.read(state, first, last)) for part in parts], to_base=to_base)


def in_pieces(rows: StateTable) -> Iterator[StateTable]:
    """Rows in the order of key-groups, some groups at a time. Few rows are left as they are."""
    if len(rows.groups) <= PIECE_ROWS:
        yield rows
        return
    table = rows.table.combine_chunks()
    order = np.argsort(rows.groups, kind="stable")
    ends = np.searchsorted(rows.groups, np.arange(int(rows.groups.max()) + 1), "right", order)
    counts = np.diff(ends, prepend=0)
    for first, last in _ranges(counts):
        taken = order[ends[first] - counts[first] : ends[last]]
        yield replace(rows, table=table.take(pa.array(taken)), groups=rows.groups[taken])


def _ranges(rows: RowsByGroup) -> Iterator[tuple[int, int]]:
    """Ranges of key-groups with about as many rows as are merged at a time; at least one group."""
    groups = np.flatnonzero(rows)
    pieces = (np.cumsum(rows[groups]) - 1) // PIECE_ROWS
    numbered = zip(pieces.tolist(), groups.tolist(), strict=True)
    for _, members in groupby(numbered, key=lambda pair: pair[0]):
        inside = [group for _, group in members]
        yield inside[0], inside[-1]
