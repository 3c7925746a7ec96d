"""How changes come into the database, after their commit: the protocol ``logged``.

The segments in the snapshot storage are the write-ahead log. A segment of a *committed* epoch is
applied in the background, in the order of the chain, in one transaction with its row of the
ledger. A database that is away holds nothing up until memory is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mainstay.errors import FencedError, retold
from mainstay.snapshot.manifest import SegmentRef
from mainstay.state.backends.contract import Base, Doubts, Work
from mainstay.state.backends.external.descriptor import Descriptor, check_not_ahead
from mainstay.state.backends.external.ledger import NOTHING, Pending, Unapplied
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.store import Applied, StoreAwayError, patiently


class Logged:
    """Brings the segments of one subtask to its database. ``on_applied`` hears of each.

    One segment is under way at a time, in the background.
    """

    holds_epochs = False

    def __init__(self, own: OwnTables, on_applied: Callable[[int], None]) -> None:
        self.own = own
        self.unapplied = Unapplied()
        self.trouble: Exception | None = None
        self._on_applied = on_applied
        self.held = 0
        """The last epoch that is committed while somebody reads an earlier one; see ``on_held``."""
        self._is_applying = self._is_ended = False
        self._broken: Exception | None = None
        self._wanted: deque[tuple[Base, Descriptor, int]] = deque()
        """Bases that are asked for, and the last epoch that is in each as a whole."""

    # ------------------------------------------------------------ what happens

    def on_cut(self, epoch: int) -> None:
        self.unapplied.cut(epoch)

    def on_held(self, epoch: int) -> None:
        self.held = epoch

    def on_complete(self, epoch: int) -> None:
        self.unapplied.committed(epoch)

    def on_abort(self, epoch: int) -> None:
        """Segments stay in the chain."""

    def has_voted(self, epoch: int) -> bool:
        """The database hears of an epoch when it is committed."""
        return True

    def in_doubt(self, now: float) -> Doubts | None:
        """Nothing is ever left in doubt."""
        return None

    def failed(self, error: Exception) -> None:
        """A read or a write failed."""
        if isinstance(error, StoreAwayError):
            # Nobody tells when it is back: what was asked is asked again.
            self.trouble = error
        else:
            self._broken = error

    # ------------------------------------------------------------ in the background

    @property
    def is_busy(self) -> bool:
        return self._is_applying or self.unapplied.next() is not None

    def next_work(self) -> Work | None:
        """A base that is wanted, or the next segment for the database."""
        if self._broken is not None:
            raise retold(self.own.store.name, self._broken) from self._broken
        if self._wanted:
            return self._describing(*self._wanted.popleft())
        return None if self._is_applying else self._next_step()

    def _next_step(self) -> Work | None:
        pending = self.unapplied.next()
        if pending is None:
            return None
        forget_up_to = self.unapplied.forgettable(pending)
        return self._in_background(
            lambda: self.apply(pending, forget_up_to), lambda _: self._applied(pending)
        )

    def _in_background(self, run: Callable[[], Any], then: Callable[[Any], None]) -> Work:
        """The one thing that is under way."""

        def done(found: Any) -> None:
            if self._is_ended:
                return
            self._is_applying = False
            self.trouble = None
            then(found)

        def failed(error: Exception) -> None:
            self._is_applying = False
            self.failed(error)

        self._is_applying = True
        return Work(run, done, failed)

    def _applied(self, pending: Pending) -> None:
        self.unapplied.applied(pending)
        self._on_applied(pending.number)

    def apply(self, pending: Pending, forget_up_to: int) -> None:
        """Apply a segment. Runs in the background; again, where its outcome is not known."""
        self.admit()
        self.own.apply(pending, forget_up_to)

    def admit(self) -> None:
        """Begin with tables that are empty, before the first write into them."""
        if not self.own.is_admitted:
            self.own.fence()
            self.reconciled((), {}, self.own.applied())
            # Not before: an answer that was lost on the way is asked for again.
            self.own.is_admitted = True

    def is_settled(self, epoch: int) -> bool:
        """Whether the database has all of a complete epoch."""
        return self.unapplied.has_all_of(epoch)

    def end(self) -> None:
        """Apply what is committed, so that others find it. Where the database is away, or listens
        to somebody else by now, the next attempt does."""
        self._is_ended = True
        try:
            # What is under way is done again, and finds itself done.
            while (pending := self.unapplied.next()) is not None:
                patiently(partial(self.apply, pending, NOTHING))
                self.unapplied.applied(pending)
        except (StoreAwayError, FencedError) as error:
            self.trouble = error

    # ------------------------------------------------------------ restore

    @property
    def adopted_epoch(self) -> int:
        """The epoch of a restored segment that the database lacks: which it was exactly nobody
        knows, and it is part of the one that the attempt starts from."""
        return max(self.own.place.since.epoch, self.unapplied.position.epoch)

    def adopted(self) -> None:
        """All that the database lacks of a restored chain was taken over."""

    def reconciled(
        self, chain: Sequence[SegmentRef], epochs: Mapping[str, int], applied: Sequence[Applied]
    ) -> list[Applied]:
        """The ledger, if all that it has is in a chain, or in its bases up to these epochs."""
        check_not_ahead(self.own.set, self.own.place.groups, chain, epochs, applied)
        return list(applied)

    # ------------------------------------------------------------ bases

    def begin_base(self, base: Base) -> None:
        """What a run of applied segments comes to is in the database."""
        self._wanted.append((base, self.described(), self.unapplied.whole_epoch))

    def described(self) -> Descriptor:
        at, groups = self.unapplied.position, self.own.place.groups
        return self.own.describe(at.epoch, at.number, self.unapplied.reached.runs(groups))

    def _describing(self, base: Base, described: Descriptor, whole_epoch: int) -> Work:
        def done(ref: SegmentRef) -> None:
            base.stored(ref)
            self.unapplied.base_stored(whole_epoch)

        return Work(
            lambda: self.own.save(described, base.storage, base.path_of, base.id), done, base.failed
        )
