"""Votes: transactions that a database has prepared for an epoch, and what becomes of them.

A prepared transaction outlives its session, its worker and a crash of the server, and holds its
locks until somebody commits it or rolls it back. Its name says whose it is, so an attempt settles
what the ones before it have left in doubt. Rolling back is never wrong, because the segments are in
the snapshot storage as well: what was rolled back is applied again. Committing is, unless the
attempt goes on from that epoch or a later one of the same attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mainstay.snapshot.since import Since
from mainstay.state.backends.external.store import (
    Applied,
    StateChanges,
    Store,
    StoreAwayError,
    TableSet,
)
from mainstay.state.keygroups import KeyGroupRange


class FenceHeldError(StoreAwayError):
    """A transaction of another attempt keeps the fence from being raised, for the moment."""


@dataclass(frozen=True, slots=True)
class Vote:
    """A prepared transaction: all that one subtask of an attempt changes up to an epoch."""

    tables: TableSet
    attempt: int
    groups: KeyGroupRange
    epoch: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """A vote that is in doubt, for how long by the server's clock, and how a person ends it."""

    vote: Vote
    age_s: float
    end: str


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of a vote: its row of the ledger, and what it does."""

    segment: Applied
    changes: Sequence[StateChanges]


def is_complete(vote: Vote, tables: TableSet, since: Since) -> bool:
    """Whether the state that an attempt starts from has all that is in a vote.

    ``since`` is the epoch that it starts from. Of the attempt that has completed it, every vote up
    to there counts: what was given up went with the next epoch. Of any other attempt none does, not
    even under the same number; nor one for tables that were made anew since.
    """
    is_of_that_attempt = vote.attempt == since.attempt and vote.epoch <= since.epoch
    return is_of_that_attempt and vote.tables == tables


class VotingStore(Store, Protocol):
    """A database with prepared transactions. Any thread may call it.

    Its ``fence`` raises ``FenceHeldError`` while a transaction of another attempt, prepared or
    open, holds the fence where it is.
    """

    def votes(self, tables: TableSet) -> list[Vote]:
        """What is prepared for an operator, by any attempt and for any making of its tables."""

    def doubts(self, tables: TableSet) -> list[Doubt]:
        """The same, with how long each has been prepared."""

    def check_votes(self, subtasks: int) -> None:
        """Raise an error that says what to set where the server does not take a vote of each."""

    def prepare(self, vote: Vote, parts: Sequence[Part], forget_up_to: int) -> None:
        """Do what ``apply`` does for each segment, in one transaction, and prepare it.

        Where it is prepared already, because an answer was lost, nothing is done.
        """

    def commit_vote(self, vote: Vote) -> bool:
        """Commit; False if there is none, because it was committed or rolled back before."""

    def roll_back_vote(self, vote: Vote) -> None:
        """Roll back, and be sure that it is not prepared later, by a call that got lost."""
