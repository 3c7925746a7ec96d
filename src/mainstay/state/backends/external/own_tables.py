"""The tables of one subtask's operator in a database, and the attempt that may write them."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import PathOf, Place
from mainstay.state.backends.external.changes import changes_in
from mainstay.state.backends.external.descriptor import Descriptor
from mainstay.state.backends.external.ledger import Pending
from mainstay.state.backends.external.reached import Run
from mainstay.state.backends.external.store import TRIES, Applied, StateColumns, TableSet
from mainstay.state.backends.external.votes import (
    FenceHeldError,
    Part,
    Vote,
    VotingStore,
    is_complete,
)
from mainstay.state.backends.tables import Tables


class OwnTables:
    """Which tables they are, and what this attempt does with them. Any thread may call it."""

    def __init__(
        self, store: VotingStore, place: Place, tables: Tables, states: Sequence[StateColumns]
    ) -> None:
        self.store, self.place = store, place
        self.set = TableSet(place.lineage, place.uid)
        self.is_admitted = False
        self._tables, self._states = tables, states

    def use(self, tables: TableSet, *, is_known: bool) -> None:
        """Go on with tables, which older attempts are kept from."""
        self.set = tables
        self.fence(is_known=is_known)
        self.is_admitted = True

    def fence(self, *, is_known: bool = False) -> None:
        """Raise the fence to this attempt. Before, what older ones have prepared is settled: while
        that is in doubt it holds the fence where it is, and one of them may just be preparing."""
        for _ in range(TRIES - 1):
            try:
                return self._fence(is_known)
            except FenceHeldError:
                continue
        return self._fence(is_known)

    def _fence(self, is_known: bool) -> None:
        self._settle_older_votes()
        self.store.fence(self.set, self.place.attempt, self._states, is_known=is_known)

    def _settle_older_votes(self) -> None:
        """Every subtask does so for all of them. Those of later attempts are none of ours."""
        for vote in self.store.votes(self.set):
            if vote.attempt >= self.place.attempt:
                continue
            if is_complete(vote, self.set, self.place.since):
                self.store.commit_vote(vote)
            else:
                self.store.roll_back_vote(vote)

    def applied(self) -> list[Applied]:
        """The rows of the ledger with key-groups of this subtask."""
        return self.store.applied(self.set, self.place.groups)

    def apply(self, pending: Pending, forget_up_to: int) -> None:
        """Apply a segment, with its row of the ledger."""
        part = self._part(pending)
        self.store.apply(self.set, self.place.attempt, part.segment, part.changes, forget_up_to)

    def _part(self, pending: Pending) -> Part:
        assert pending.tables is not None
        assert pending.epoch is not None
        changes = changes_in(self._tables, pending.tables, pending.number)
        segment = Applied(pending.segment, pending.epoch, pending.number, pending.groups)
        return Part(segment, changes)

    def vote(self, epoch: int) -> Vote:
        """The vote of this subtask for an epoch."""
        return Vote(self.set, self.place.attempt, self.place.groups, epoch)

    def prepare(self, vote: Vote, segments: Sequence[Pending], forget_up_to: int) -> None:
        """Prepare segments, with their rows of the ledger, in one transaction."""
        self.store.prepare(vote, [self._part(each) for each in segments], forget_up_to)

    def describe(self, epoch: int, number: int, reached: tuple[Run, ...]) -> Descriptor:
        """What is in the tables up to a segment."""
        tables = self.set
        names = (self.store.name, tables.lineage, tables.uid, tables.making)
        return Descriptor(*names, epoch, number, tuple(self._states), reached)

    def save(self, described: Descriptor, storage: Storage, path_of: PathOf, id: str) -> SegmentRef:
        """Store a descriptor as a base."""
        groups, most = self.place.groups, self.place.max_parallelism
        rows = self.store.rows(self.set) * len(groups) // most
        return described.save(storage, path_of, id, groups, rows)
