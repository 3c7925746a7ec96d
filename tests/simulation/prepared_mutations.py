"""Bugs to plant in the two-phase commit of the external backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.external import own_tables
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.prepared import Prepared
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def an_epoch_is_acknowledged_before_the_database_has_voted() -> Iterator[None]:
    with patch.object(Prepared, "has_voted", lambda self, epoch: True):
        yield


@mutation
def a_vote_is_committed_before_its_epoch_is_complete() -> Iterator[None]:
    right = Prepared._prepare

    def at_once(self: Any, found: Any) -> None:
        right(self, found)
        found.is_complete = True

    with patch.object(Prepared, "_prepare", at_once):
        yield


@mutation
def a_vote_is_rolled_back_although_its_epoch_is_complete() -> Iterator[None]:
    right = Prepared._roll_back

    def gone(self: Any, found: Any) -> bool:
        right(self, found)
        return True

    with patch.object(Prepared, "_commit", gone):
        yield


@mutation
def a_vote_that_is_gone_is_taken_for_committed() -> Iterator[None]:
    with patch.object(Prepared, "_is_in_ledger", lambda self, found: True):
        yield


@mutation
def the_vote_of_an_epoch_that_was_given_up_stays_in_doubt() -> Iterator[None]:
    with patch.object(Prepared, "on_abort", lambda self, epoch: None):
        yield


@mutation
def votes_are_left_in_doubt_after_a_restore() -> Iterator[None]:
    with patch.object(OwnTables, "_settle_older_votes", lambda self: None):
        yield


@mutation
def a_restore_commits_the_votes_of_epochs_that_were_never_complete() -> Iterator[None]:
    with patch.object(own_tables, "is_complete", lambda vote, tables, since: True):
        yield


@mutation
def a_vote_of_a_dead_attempt_counts_by_the_number_of_its_epoch() -> Iterator[None]:
    def by_number(vote: Any, tables: Any, since: Any) -> bool:
        return bool(vote.epoch <= since.epoch and vote.tables == tables)

    with patch.object(own_tables, "is_complete", by_number):
        yield


@mutation
def a_later_epoch_is_committed_while_a_savepoint_reads_an_earlier_one() -> Iterator[None]:
    right = Prepared.on_held

    def at_once(self: Any, epoch: int) -> None:
        right(self, epoch)
        self.on_complete(epoch)

    with patch.object(Prepared, "on_held", at_once):
        yield
