"""Adoption: what a new database takes over from stored checkpoints, as files or as rows.

A checkpoint of just these key-groups, whose rows mean what they mean here, is opened as it is. One
of others is scanned and copied. Everything else the backend reads as rows of segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.stored_rows import Change
from mainstay.state.backends.contract import Restore
from mainstay.state.backends.rocksdb.checkpoint import (
    Descriptor,
    StoredState,
    by_state,
    scan_checkpoint,
)
from mainstay.state.backends.rocksdb.disk import Disk
from mainstay.state.backends.rocksdb.timers import CachedTimers
from mainstay.state.keygroups import KeyGroupRange


@dataclass(frozen=True, slots=True)
class Adoption:
    """Who takes over: the tables, the type of their key, their key-groups, their disk."""

    tables: Mapping[str, Any]
    key_type: str
    groups: KeyGroupRange
    disk: Disk

    def own_checkpoint(self, start: Restore) -> Descriptor | None:
        """The checkpoint that a chain begins with, if it can be opened as it is.

        It must be of just these key-groups, and the only one.
        """
        checkpoints = [ref for ref in start.chain if self._is_checkpoint(ref)]
        if not start.is_own or not checkpoints or checkpoints != list(start.chain[:1]):
            return None
        ref = checkpoints[0]
        found = Descriptor.read(start.storage, ref)
        whole = KeyGroupRange(found.first_group, found.last_group)
        named = KeyGroupRange(ref.first_group, ref.last_group)
        is_same = whole == named == self.groups and self._are_same(found)
        return found if is_same and self._are_in_order(found) else None

    def _is_checkpoint(self, ref: SegmentRef) -> bool:
        return ref.format == self.disk.format

    def number_as(self, states: Sequence[StoredState]) -> None:
        """States have the numbers that an opened database has for them; new ones get others."""
        stored = {state.name: state.number for state in states}
        free = max(stored.values(), default=-1) + 1
        for name, table in self.tables.items():
            if name in stored:
                table.renumber(stored[name])
            else:
                table.renumber(free)
                free += 1

    def copied(
        self, storage: Storage, ref: SegmentRef, generation: int
    ) -> Iterator[Iterator[Change]] | None:
        """The rows of a checkpoint that may be applied, with the numbers states have here.

        None where they do not mean the same here.
        """
        if not self._is_checkpoint(ref):
            return None
        descriptor = Descriptor.read(storage, ref)
        if not self._are_same(descriptor):
            return None
        return self._copied(storage, ref, descriptor, generation)

    def _copied(
        self, storage: Storage, ref: SegmentRef, descriptor: Descriptor, generation: int
    ) -> Iterator[Iterator[Change]]:
        names = {state.number: state.name for state in descriptor.states}
        for chunk in scan_checkpoint(storage, ref, descriptor, self.disk):
            for number, rows in by_state(chunk).items():
                if names.get(number) in self.tables:
                    yield self.tables[names[number]].copied(rows, generation)

    def _are_same(self, found: Descriptor) -> bool:
        """Whether the rows of a checkpoint mean what the rows here mean."""
        return found.key_type == self.key_type and all(
            replace(state, number=0, has_order=False)
            == StoredState.of(self.tables[state.name].info, 0)
            for state in found.states
            if state.name in self.tables
        )

    def _are_in_order(self, found: Descriptor) -> bool:
        """Whether just those states are timers, with rows for their order, that are so here."""
        return all(
            state.has_order == isinstance(self.tables.get(state.name), CachedTimers)
            for state in found.states
        )
