"""Bugs to plant in the protocol ``versioned``, whose database the simulation keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.external.backend import ExternalBackend
from mainstay.state.backends.external.descriptor import not_in
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.retained import Retained
from mainstay.state.backends.external.staged import Staged
from mainstay.state.backends.external.versioned import Versioned
from mainstay.state.backends.external.versions import CLEARED, PUT
from mainstay.testing import memory_versions
from mainstay.testing.memory_versions import VersionedMemoryStore
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def the_pointer_moves_before_the_epoch_is_committed() -> Iterator[None]:
    right = ExternalBackend.on_cut

    def at_once(self: Any, epoch: int) -> None:
        right(self, epoch)
        if isinstance(self.commits, Versioned):
            self.commits.retained.complete(epoch)

    with patch.object(ExternalBackend, "on_cut", at_once):
        yield


@mutation
def every_subtask_moves_the_pointer_by_itself() -> Iterator[None]:
    right = VersionedMemoryStore.complete

    def alone(self: Any, tables: Any, attempt: int, groups: Any, most: int, epoch: int) -> int:
        found = right(self, tables, attempt, groups, most, epoch)
        self._move(tables, epoch)
        return max(found, epoch)

    with patch.object(VersionedMemoryStore, "complete", alone):
        yield


@mutation
def the_pointer_moves_before_all_segments_of_the_epoch_are_there() -> Iterator[None]:
    """It is told of an epoch first, and brought its segments afterwards."""
    right = Versioned.next_work

    def pointing_first(self: Any) -> Any:
        return (None if self._is_applying else self._pointing()) or right(self)

    with (
        patch.object(Staged, "has_all_of", lambda self, epoch: True),
        patch.object(Versioned, "next_work", pointing_first),
    ):
        yield


@mutation
def a_restore_keeps_what_a_dead_attempt_has_brought() -> Iterator[None]:
    def kept(self: Any, chain: Any, epochs: Any, applied: Any) -> Any:
        strange = not_in(chain, self.own.place.groups, epochs, applied)
        return [row for row in applied if row not in strange]

    with patch.object(Versioned, "reconciled", kept):
        yield


@mutation
def an_attempt_is_admitted_before_it_has_cleaned_up() -> Iterator[None]:
    """Where an answer is lost in between, it never does."""
    right = OwnTables.fence

    def fence(self: Any, **more: Any) -> None:
        right(self, **more)
        self.is_admitted = True

    with patch.object(OwnTables, "fence", fence):
        yield


@mutation
def epochs_are_folded_that_may_be_asked_for() -> Iterator[None]:
    with patch.object(Retained, "oldest", property(lambda self: self.newest)):
        yield


@mutation
def a_clear_forgets_its_order() -> Iterator[None]:
    """Within a segment, it comes after what was put."""
    right = memory_versions.laid_over

    def last(versions: Any) -> Any:
        swapped = {CLEARED: PUT + 1}
        found = [each._replace(op=swapped.get(each.op, each.op)) for each in versions]
        cleared = [each for each in found if each.op > PUT]
        gone = {(each.k, each.number) for each in cleared}
        kept = [each for each in found if each.op <= PUT and (each.k, each.number) not in gone]
        return right([*kept, *(each._replace(op=CLEARED) for each in cleared)])

    with patch.object(memory_versions, "laid_over", last):
        yield


@mutation
def a_fold_forgets_what_was_removed() -> Iterator[None]:
    right = VersionedMemoryStore._fold

    def forgetful(self: Any, tables: Any, state: str, due: Any) -> None:
        right(self, tables, state, [each for each in due if each.op == PUT])

    with patch.object(VersionedMemoryStore, "_fold", forgetful):
        yield
