"""What the tables of the heap backend share: a dictionary for reading, and the active segment.

What is kept is immutable (see ``values``), so a frozen segment may share it with the live view;
lists and maps, which the live view changes in place, are never shared.

This is a hot file (benchmarks/state_access.py, benchmarks/snapshot_cost.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from mainstay.state.backends.changes import Changes, in_slices
from mainstay.state.backends.heap.access import SHARDS
from mainstay.state.info import StateInfo
from mainstay.state.stored_key import StoredKey

SHARD_ABOVE = 1 << 17
SLICE_ROWS = 2048
"""Rows converted between two chances for the loop to do something else."""

Parts = list[Any]


class HeapTable:
    """What the kinds share: the live view and the active segment, whole or in shards.

    A dictionary that grows past some size holds everything up while it is rebuilt. So once there
    are ``SHARD_ABOVE`` keys, both views go on as ``SHARDS`` dictionaries, chosen by the key's hash,
    and stay so: a table of any size grows in small steps.
    """

    def __init__(self, info: StateInfo, stored: StoredKey) -> None:
        self.info = info
        self.stored = stored
        self.key = stored.type
        self.live: dict[Any, Any] = {}
        self.changes: Changes = {}
        self.live_shards: list[dict[Any, Any]] | None = None
        self.shards: list[Changes] = []

    def home_of(self, key: Any) -> dict[Any, Any]:
        """Where the live value of this key is."""
        return self.live if self.live_shards is None else self.live_shards[hash(key) % SHARDS]

    def part_of(self, key: Any) -> Changes:
        """Where a change of this key goes."""
        return self.changes if self.live_shards is None else self.shards[hash(key) % SHARDS]

    def read(self, key: Any) -> Any:
        return self.home_of(key).get(key)

    def peek(self, key: Any) -> Any:
        """What is kept for a key, without a trace of the look."""
        return self.read(key)

    def bring(self, keys: Sequence[Any]) -> None:
        """Many keys are about to be read: all are here."""

    def relieve(self) -> None:
        """Go on in shards once there are many keys. Called between slices."""
        if self.live_shards is None and max(len(self.live), len(self.changes)) > SHARD_ABOVE:
            self.live_shards = _sharded(self.live)
            self.shards = _sharded(self.changes)
            # Cleared, not replaced: functions made for this table hold on to it.
            self.live.clear()
            self.changes = {}

    def freeze(self) -> Parts:
        """Hand the active segment out and open an empty one."""
        parts = [part for part in (self.changes, *self.shards) if part]
        self.changes = {}
        if self.live_shards is not None:
            self.shards = _empty_shards()
        return parts

    def live_parts(self) -> list[dict[Any, Any]]:
        return [self.live] if self.live_shards is None else self.live_shards

    def mark_all_changed(self) -> None:
        """Make the next segment stand for everything."""
        everything = [
            {key: self.whole(kept) for key, kept in part.items()} for part in self.live_parts()
        ]
        if self.live_shards is None:
            (self.changes,) = everything
        else:
            self.shards = everything

    def whole(self, kept: Any) -> Any:
        """The change that stands for all that is kept for a key."""
        raise NotImplementedError

    def leftovers(self, parts: Parts) -> Parts:
        """The parts that take time to free."""
        return parts

    def repeats_keys(self, parts: Parts) -> bool:
        """Whether a frozen segment may hold many rows that later ones make useless."""
        return False

    def encode(self, parts: Parts) -> Iterator[list[pa.Array]]:
        """The columns of a frozen segment (see ``operations.columns_of``), a slice at a time."""
        operations = chain.from_iterable(self.operations(part) for part in parts)
        return in_slices(operations, SLICE_ROWS, self.columns, self.info, self.key)

    def operations(self, changes: Changes) -> Iterator[tuple[Any, ...]]:
        """The rows that a part of a segment stands for."""
        raise NotImplementedError

    def columns(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        raise NotImplementedError

    def apply(self, rows: pa.Table) -> None:
        """Apply stored rows in order, without making them changes again."""
        self.apply_rows(self.stored.kept(rows), rows.column("op").to_pylist(), rows)

    def apply_rows(self, keys: list[Any], ops: list[int], rows: pa.Table) -> None:
        raise NotImplementedError

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(part.items() for part in self.live_parts())

    def survey(self) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, while others change it between two steps.

        What was there at the beginning and still is comes once at least, as it is then or as it
        was; what is new may come or not. No step takes long.
        """
        for part in self.live_parts():
            for key in list(part):
                kept = self.read(key)
                if kept is not None:
                    yield key, kept


def _empty_shards() -> list[dict[Any, Any]]:
    return [{} for _ in range(SHARDS)]


def _sharded(whole: dict[Any, Any]) -> list[dict[Any, Any]]:
    shards = _empty_shards()
    for key, kept in whole.items():
        shards[hash(key) % SHARDS][key] = kept
    return shards
