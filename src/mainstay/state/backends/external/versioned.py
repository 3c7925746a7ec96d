"""How changes come into the database, in versions: the protocol ``versioned``.

A segment is brought to the database as soon as it is durable and its epoch is cut, as deltas that
nobody else sees yet. When the epoch is committed and all subtasks have brought theirs, a pointer
moves to it, in one transaction. What a failed attempt has brought is taken back by the next one,
which goes on with all that the epoch it starts from has: nothing is loaded. Behind the oldest epoch
that may be asked for deltas are folded into the base.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from mainstay.errors import FencedError
from mainstay.snapshot.manifest import SegmentRef
from mainstay.state.backends.contract import Work
from mainstay.state.backends.external.descriptor import (
    brought_late,
    check_not_abandoned,
    check_not_folded,
    not_in,
)
from mainstay.state.backends.external.ledger import Pending
from mainstay.state.backends.external.logged import Logged
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.retained import Retained
from mainstay.state.backends.external.staged import Staged
from mainstay.state.backends.external.store import Applied, StoreAwayError, TableSet, patiently
from mainstay.state.backends.external.versions import VersionedStore

MAKING = "v"
"""The making of tables with versions that began empty. Those of other protocols have others."""


class Versioned(Logged):
    """Brings the segments of one subtask to its database, and says which epochs are complete.

    One thing is under way at a time, in the background.
    """

    def __init__(self, own: OwnTables, on_applied: Callable[[int], None]) -> None:
        super().__init__(own, on_applied)
        place = own.place
        own.set = TableSet(place.lineage, place.uid, MAKING)
        self.staged = Staged()
        self.unapplied = self.staged
        self.retained = Retained(place.since.epoch, place.retain)

    @property
    def _store(self) -> VersionedStore:
        return cast(VersionedStore, self.own.store)

    # ------------------------------------------------------------ what happens

    def on_complete(self, epoch: int) -> None:
        super().on_complete(epoch)
        self.retained.complete(epoch)

    def _applied(self, pending: Pending) -> None:
        rows = sum(each.table.num_rows for each in pending.tables or ())
        super()._applied(pending)
        epoch = pending.epoch or 0
        self.retained.staged(epoch, rows)
        if pending.groups == self.own.place.groups:
            self.staged.brought_own(epoch)

    # ------------------------------------------------------------ in the background

    def next_work(self) -> Work | None:
        work = super().next_work()
        if work is None and not self._is_applying and self.own.place.groups:
            work = self._pointing() or self._folding()
        return work

    def _unsaid(self) -> int | None:
        """The epoch that the database is to be told of; None if there is none."""
        newest = self.retained.newest
        is_ready = newest > self.retained.said and self.staged.has_all_of(newest)
        return newest if is_ready else None

    def _pointing(self) -> Work | None:
        epoch = self._unsaid()
        if epoch is None:
            return None
        return self._in_background(partial(self.say, epoch), partial(self.retained.pointed, epoch))

    def say(self, epoch: int) -> int:
        """Tell the database of a complete epoch. Runs in the background, again where its outcome
        is not known."""
        self.admit()
        own, place = self.own, self.own.place
        return self._store.complete(
            own.set, place.attempt, place.groups, place.max_parallelism, epoch
        )

    @property
    def is_folded(self) -> bool:
        """Whether all is folded that is to be, and others see the last epoch."""
        return self._unsaid() is None and self.retained.next_part(self.own.place.groups) is None

    def _folding(self) -> Work | None:
        part = self.retained.next_part(self.own.place.groups)
        if part is None:
            return None
        groups, epoch = part

        def done(_: Any) -> None:
            self.retained.folded_part()
            self.staged.folded = max(self.staged.folded, epoch)

        own = self.own
        return self._in_background(
            partial(self._store.fold, own.set, own.place.attempt, groups, epoch), done
        )

    def is_settled(self, epoch: int) -> bool:
        is_said = not self.own.place.groups or self.retained.said >= epoch
        return super().is_settled(epoch) and is_said

    def end(self) -> None:
        super().end()
        epoch = self._unsaid() if self.own.place.groups else None
        if epoch is None:
            return
        try:
            patiently(partial(self.say, epoch))
        except (StoreAwayError, FencedError) as error:
            self.trouble = error

    # ------------------------------------------------------------ restore

    def adopted(self) -> None:
        self.unapplied.cut(self.adopted_epoch)

    def reconciled(
        self, chain: Sequence[SegmentRef], epochs: Mapping[str, int], applied: Sequence[Applied]
    ) -> list[Applied]:
        """The ledger, without what attempts have brought that came to nothing, or under an epoch
        after the one that this attempt starts from: it is taken back."""
        own, place = self.own, self.own.place
        check_not_abandoned(own.set, epochs.values(), self._store.abandoned(own.set))
        since = place.since.epoch
        gone = strange = not_in(chain, place.groups, epochs, applied)
        late = brought_late(chain, since, applied, strange)
        if strange or late:
            folded = self._store.folded(own.set)
            check_not_folded(own.set, strange, folded)
            # What is in the base is part of every epoch that is left.
            gone = strange + [row for row in late if row.epoch > folded]
        if gone:
            self._store.discard(own.set, place.attempt, place.groups, gone, since)
        return [row for row in applied if row not in gone]
