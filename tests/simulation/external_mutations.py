"""Bugs to plant in the external backend, whose database the simulation keeps in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.external import adoption, descriptor
from mainstay.state.backends.external.backend import ExternalBackend
from mainstay.state.backends.external.ledger import NOTHING, Position, Unapplied
from mainstay.state.backends.external.reads import Reads
from mainstay.testing.memory_store import MemoryStore
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def the_fence_is_checked_before_the_write_and_not_inside() -> Iterator[None]:
    """Others get between a look and the write that follows."""
    right, looks = MemoryStore.apply, MemoryStore.check_fence

    def apply(self: Any, tables: Any, attempt: int, *rest: Any) -> None:
        looked = vars(self).setdefault("looked", set())
        if tables not in looked:
            looks(self, tables, attempt)
            looked.add(tables)
        with patch.object(MemoryStore, "check_fence", lambda *_: None):
            right(self, tables, attempt, *rest)

    with patch.object(MemoryStore, "apply", apply):
        yield


@mutation
def the_row_of_the_ledger_is_written_in_another_transaction() -> Iterator[None]:
    """That of a segment comes with the next one, if there is a next one."""
    right = MemoryStore._note

    def later(self: Any, *arguments: Any) -> None:
        for each in vars(self).pop("later", ()):
            right(self, *each)
        vars(self)["later"] = [arguments]

    with patch.object(MemoryStore, "_note", later):
        yield


@mutation
def a_segment_is_applied_before_its_epoch_is_committed() -> Iterator[None]:
    def early(self: Any) -> Any:
        first = self._waiting[0] if self._waiting else None
        if first is None or first.tables is None:
            return None
        first.epoch = first.epoch or 0
        return first

    with patch.object(Unapplied, "next", early):
        yield


@mutation
def segments_are_applied_out_of_the_order_of_the_chain() -> Iterator[None]:
    def newest(self: Any) -> Any:
        ready = [
            each
            for each in self._waiting
            if each.tables is not None and each.epoch is not None and each.epoch <= self._committed
        ]
        return ready[-1] if ready else None

    def applied(self: Any, pending: Any) -> None:
        self._waiting.remove(pending)
        number = max(self.position.number, pending.number)
        self.position = Position(max(self.position.epoch, pending.epoch), number)

    def drop(self: Any, number: int) -> None:
        for table in self.tables.values():
            table.frozen = [part for part in table.frozen if part[0] != number]

    with (
        patch.object(Unapplied, "next", newest),
        patch.object(Unapplied, "applied", applied),
        patch.object(ExternalBackend, "_drop", drop),
    ):
        yield


@mutation
def changes_that_the_database_does_not_have_are_evicted() -> Iterator[None]:
    right = ExternalBackend.relieve

    def forgetful(self: Any) -> None:
        right(self)
        for table in self.tables.values():
            table.forget()
            table.frozen = []

    with patch.object(ExternalBackend, "relieve", forgetful):
        yield


@mutation
def the_ledger_does_not_say_of_which_key_groups() -> Iterator[None]:
    def of_all(groups: Any, covered: Any) -> Any:
        return [] if list(covered) else [groups]

    with (
        patch("mainstay.state.backends.external.ledger.uncovered", of_all),
        patch("mainstay.state.backends.external.store.uncovered", of_all),
    ):
        yield


@mutation
def a_read_that_began_before_a_segment_was_applied_does_not_see_it() -> Iterator[None]:
    def at_once(self: Any, number: int) -> None:
        self._drop(number)

    with patch.object(Reads, "applied", at_once):
        yield


@mutation
def a_restore_forgets_the_segments_that_the_ledger_lacks() -> Iterator[None]:
    with patch.object(Unapplied, "missing", lambda self, ref, applied: []):
        yield


@mutation
def a_restore_applies_what_the_ledger_has_already() -> Iterator[None]:
    right, applies = Unapplied.missing, MemoryStore.apply

    def everything(self: Any, ref: Any, applied: Any) -> Any:
        return right(self, ref, [])

    def blindly(self: Any, tables: Any, *rest: Any) -> None:
        self.server.ledger[tables] = []
        applies(self, tables, *rest)

    with (
        patch.object(Unapplied, "missing", everything),
        patch.object(MemoryStore, "apply", blindly),
    ):
        yield


@mutation
def the_database_moves_on_while_a_savepoint_reads_it() -> Iterator[None]:
    from mainstay.runtime.coordinator.savepoints import Savepoints

    with patch.object(Savepoints, "saved_epoch", lambda self: None):
        yield


@mutation
def the_ledger_is_forgotten_too_early() -> Iterator[None]:
    def all_of_it(self: Any, pending: Any) -> int:
        return pending.epoch if pending.epoch is not None else NOTHING

    with (
        patch.object(Unapplied, "forgettable", all_of_it),
        patch.object(adoption, "check_not_behind", lambda *_: None),
    ):
        yield


@mutation
def the_ledger_is_forgotten_of_an_epoch_that_is_half_in_a_base() -> Iterator[None]:
    with patch.object(Unapplied, "whole_epoch", property(lambda self: self.position.epoch)):
        yield


@mutation
def a_base_has_the_parts_of_lists_that_came_after_it() -> Iterator[None]:
    right = descriptor._local_rows

    def whole(rows: Any, kind: str, number: int) -> Any:
        return right(rows, kind, 1 << 62)

    with patch.object(descriptor, "_local_rows", whole):
        yield
