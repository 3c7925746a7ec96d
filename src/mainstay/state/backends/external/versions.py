"""Rows in versions: what a database with the protocol ``versioned`` keeps beside its base.

What a segment does is appended as *deltas*, with the segment's number and its epoch. A row is what
the base has of it, and then what the deltas say, in the order of their numbers. A delta is part of
an epoch if its own is not a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from mainstay.state.backends.external.store import Applied, StateChanges, Store, Stored, TableSet
from mainstay.state.keygroups import KeyGroupRange

CLEARED, REMOVED, PUT = 0, 1, 2
"""What a delta does: all rows of a key go, one goes, or one is put. A segment does it in this
order. Part of the format of tables."""
BASE = 0
"""The number of what is in the base: segments count from 1."""


class Version(NamedTuple):
    """A row of the base, or a delta."""

    number: int
    op: int
    k: bytes
    s: bytes
    cell: bytes | None
    epoch: int = 0


def versions_of(segment: Applied, changes: StateChanges) -> list[Version]:
    """What is appended for the changes of a state."""
    number, epoch = segment.number, segment.epoch
    return [
        *(Version(number, CLEARED, k, b"", None, epoch) for k in changes.cleared),
        *(Version(number, REMOVED, k, s, None, epoch) for k, s in changes.removed),
        *(Version(number, PUT, k, s, cell, epoch) for k, s, cell in changes.put),
    ]


def laid_over(versions: Iterable[Version]) -> dict[bytes, dict[bytes, bytes]]:
    """The rows that come of versions, by ``k`` and ``s``; a key without rows is left out."""
    rows: dict[bytes, dict[bytes, bytes]] = {}
    for each in sorted(versions, key=lambda version: version[:2]):
        if each.op == CLEARED:
            rows.pop(each.k, None)
        elif each.op == PUT and each.cell is not None:
            rows.setdefault(each.k, {})[each.s] = each.cell
        else:
            rows.get(each.k, {}).pop(each.s, None)
    return {k: some for k, some in rows.items() if some}


def in_order(rows: dict[bytes, dict[bytes, bytes]]) -> list[Stored]:
    """Rows by ``k`` and ``s``."""
    return [(k, s, cell) for k in sorted(rows) for s, cell in sorted(rows[k].items())]


def once_each(changes: Sequence[StateChanges]) -> list[StateChanges]:
    """The changes of each state as one. A segment may have several tables of a state, and what one
    does to a row comes after what another has done to it."""
    by_state: dict[str, list[StateChanges]] = {}
    for each in changes:
        by_state.setdefault(each.state, []).append(each)
    return [some[0] if len(some) == 1 else _as_one(some) for some in by_state.values()]


def _as_one(changes: Sequence[StateChanges]) -> StateChanges:
    cleared: set[bytes] = set()
    removed: set[tuple[bytes, bytes]] = set()
    put: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
    row = 0
    for each in changes:
        gone = set(each.cleared)
        cleared |= gone
        put = {place: kept for place, kept in put.items() if place[0] not in gone}
        removed = {place for place in removed if place[0] not in gone} | set(each.removed)
        for place in each.removed:
            put.pop(place, None)
        for k, s, cell in each.put:
            put[k, s] = (row, cell)
            row += 1
    readable = pa.concat_tables([each.readable for each in changes])
    return StateChanges(
        changes[0].state,
        sorted(cleared),
        sorted(removed - put.keys()),
        [(k, s, cell) for (k, s), (_, cell) in put.items()],
        readable.take(pa.array([row for row, _ in put.values()], pa.int64())),
    )


class VersionedStore(Store, Protocol):
    """A database with versions. ``apply`` appends deltas, ``load`` writes into the base; reads for
    the job itself see everything that is there."""

    def folded(self, tables: TableSet) -> int:
        """The oldest epoch that can be read."""

    def complete(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        max_parallelism: int,
        epoch: int,
    ) -> int:
        """Note that a subtask has brought all of a committed epoch. Once the subtasks of the
        attempt have all key-groups, the pointer moves to the oldest epoch they have noted, in the
        same transaction. Gives the epoch that the pointer is at; 0 where there is none yet."""

    def fold(self, tables: TableSet, attempt: int, groups: KeyGroupRange, epoch: int) -> None:
        """Put the deltas of some key-groups up to an epoch into the base. From then on no epoch
        before it can be seen or gone back to."""

    def discard(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        segments: Sequence[Applied],
        epoch: int,
    ) -> None:
        """Take segments back within some key-groups, with their rows of the ledger. In the same
        transaction the pointer goes back to ``epoch``, if it is at a later one."""
