"""Prepared transactions of the databases in memory: they outlive workers, and hold their locks.

Who would wait for a lock is told that the server does not answer, because nobody else can end the
wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainstay.state.backends.external.store import (
    Applied,
    StateChanges,
    StateColumns,
    StoreAwayError,
    TableSet,
    still_missing,
)
from mainstay.state.backends.external.votes import Doubt, FenceHeldError, Part, Vote
from mainstay.testing.memory_store import MemoryStore


class VotingMemoryStore(MemoryStore):
    """A connection to a server that prepares transactions."""

    def fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], *, is_known: bool
    ) -> None:
        is_raised = self.server.admitted.get((tables.lineage, tables.uid), 0) < attempt
        # Each vote has looked at the fence, and holds it where it is.
        if is_raised and self._prepared_for(tables):
            raise FenceHeldError(f"simulated: {self.name} waits for the fence of the {tables}")
        super().fence(tables, attempt, states, is_known=is_known)

    def _prepared_for(self, tables: TableSet) -> list[Vote]:
        owner = (tables.lineage, tables.uid)
        return [v for v in self.server.prepared if (v.tables.lineage, v.tables.uid) == owner]

    def check_votes(self, subtasks: int) -> None:
        """There is room for any number."""

    def votes(self, tables: TableSet) -> list[Vote]:
        self._answer()
        return self._prepared_for(tables)

    def doubts(self, tables: TableSet) -> list[Doubt]:
        """No time passes here."""
        self._answer()
        return [Doubt(vote, 0.0, "") for vote in self._prepared_for(tables)]

    def prepare(self, vote: Vote, parts: Sequence[Part], forget_up_to: int) -> None:
        self._answer()
        if vote not in self.server.prepared:
            self.check_fence(vote.tables, vote.attempt)
            for part in parts:
                self._check_unlocked(vote.tables, part.changes)
            self.server.prepared[vote] = (
                [self._missing(vote, each) for each in parts],
                forget_up_to,
            )
        self._answer()

    def _missing(self, vote: Vote, part: Part) -> Part:
        """What the ledger lacks of a segment, a run of key-groups after the other."""
        ledger = self.server.ledger.setdefault(vote.tables, [])
        covered = [row for row in ledger if row.segment == part.segment.segment]
        runs, changes = still_missing(part.changes, part.segment, covered)
        return replace(part, changes=changes if runs else ())

    def commit_vote(self, vote: Vote) -> bool:
        self._answer()
        found = self.server.prepared.pop(vote, None)
        if found is None:
            return False
        parts, forget_up_to = found
        for part in parts:
            self._write(vote.tables, part.changes)
            self._note_missing(vote.tables, part.segment)
        self._forget(vote.tables, vote.groups, forget_up_to)
        self._answer()
        return True

    def _note_missing(self, tables: TableSet, segment: Applied) -> None:
        covered = [row for row in self.server.ledger[tables] if row.segment == segment.segment]
        runs, _ = still_missing((), segment, covered)
        self._note(tables, segment, runs)

    def roll_back_vote(self, vote: Vote) -> None:
        self._answer()
        self.server.prepared.pop(vote, None)
        self._answer()

    # ------------------------------------------------------------ locks

    def _write(self, tables: TableSet, changes: Sequence[StateChanges]) -> None:
        self._check_unlocked(tables, changes)
        super()._write(tables, changes)

    def _check_unlocked(self, tables: TableSet, changes: Sequence[StateChanges]) -> None:
        others = [
            (vote, parts)
            for vote, (parts, _) in self.server.prepared.items()
            if vote.tables == tables
        ]
        wanted = _touched(changes) if others else set()
        for vote, parts in others:
            if any(not wanted.isdisjoint(_touched(part.changes)) for part in parts):
                raise StoreAwayError(f"simulated: {self.name} waits for rows of {vote}")


def _touched(changes: Sequence[StateChanges]) -> set[tuple[str, bytes]]:
    """The keys, by state, that a transaction locks."""
    found: set[tuple[str, bytes]] = set()
    for each in changes:
        found.update((each.state, k) for k in each.cleared)
        found.update((each.state, k) for k, _ in each.removed)
        found.update((each.state, k) for k, _, _ in each.put)
    return found
