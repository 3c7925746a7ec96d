"""Dropping panes: what is noted of it until the next cut, and which stored rows a drop is of."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.schema.sizes import combined
from mainstay.snapshot.drops import FIRST_PANE, Drop, Drops, covered, joined
from mainstay.snapshot.statefile import StateTable
from mainstay.state.grouping import words_of
from mainstay.state.stored_key import NAMESPACE, StoredKey


class DroppedPanes:
    """The panes that a table has dropped since its last cut; a part of what it freezes."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, pane: int, *, is_lowest: bool) -> None:
        """A pane is gone, of which files may hold something. Where it was the lowest that there
        was, everything below is gone as well: so panes that die in their order are one run."""
        first = FIRST_PANE if is_lowest else pane
        self._runs = [run for run in self._runs if not first <= run[0] <= run[1] <= pane]
        insort(self._runs, (first, pane))

    def drops(self, max_parallelism: int) -> Drops:
        """What a segment says of it: all key-groups of the subtask that wrote the segment."""
        return joined(Drop(first, last, 0, max_parallelism - 1) for first, last in self._runs)


def drops_in(parts: Sequence[Any], max_parallelism: int) -> Drops:
    """What the parts of a frozen table have dropped."""
    found = (part for part in parts if isinstance(part, DroppedPanes))
    return tuple(drop for part in found for drop in part.drops(max_parallelism))


def without_drops(parts: Sequence[Any]) -> list[Any]:
    """The parts of a frozen table that rows are made of."""
    return [part for part in parts if not isinstance(part, DroppedPanes)]


def is_dropped(rows: StateTable, drops: Sequence[Drop]) -> npt.NDArray[np.bool_]:
    """Which stored rows drops take away."""
    if not drops or not rows.table.num_rows:
        return np.zeros(rows.table.num_rows, np.bool_)
    return covered(drops, words_of(combined(rows.table.column(NAMESPACE))), rows.groups)


def dropped_pairs(
    pairs: Sequence[Any], stored: StoredKey, drops: Drops, max_parallelism: int
) -> list[Any]:
    """Which pairs of a key and a namespace drops take away."""
    if not pairs:
        return []
    column = stored.type.to_array(pairs)
    gone = covered(drops, words_of(column.field(1)), stored.groups(column, max_parallelism))
    return [pairs[number] for number in np.flatnonzero(gone).tolist()]


def surviving(parts: Sequence[StateTable]) -> list[StateTable]:
    """The tables of one state, given oldest first, without the rows that later ones drop."""
    found: list[StateTable] = []
    drops: list[Drop] = []
    for rows in reversed(parts):
        found.append(without_dropped(rows, drops))
        drops.extend(rows.drops)
    return found[::-1]


def without_dropped(rows: StateTable, drops: Sequence[Drop]) -> StateTable:
    """Rows that drops do not take away."""
    gone = is_dropped(rows, drops)
    if not gone.any():
        return rows
    table = rows.table.filter(pa.array(~gone))
    return replace(rows, table=table, groups=rows.groups[~gone], hashes=None)


def drops_of(parts: Iterable[StateTable]) -> Drops:
    """What tables of one state drop together."""
    return joined(drop for part in parts for drop in part.drops)
