"""Which segments are to be brought to a database with versions, and when. Decisions only.

A segment is brought when it is durable, when it is known which epoch is the first that has it, and
when every one before it is there. It need not wait for that epoch's commit.
"""

from __future__ import annotations

from mainstay.state.backends.external.ledger import NOTHING, Pending, Unapplied


class Staged(Unapplied):
    """The segments of one subtask that the database does not have yet, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.folded = 0
        """The epoch before which nothing can be restored any more."""
        self._first_own: int | None = None
        self._bases: list[tuple[int, int]] = []
        """Bases of the chain: up to which epoch each stands for the ledger, and the first epoch
        that was cut with it."""

    def next(self) -> Pending | None:
        first = self._waiting[0] if self._waiting else None
        is_ready = first is not None and first.epoch is not None and first.tables is not None
        return first if is_ready else None

    def brought_own(self, epoch: int) -> None:
        """The database has a segment of this attempt, of all its key-groups."""
        if self._first_own is None:
            self._first_own = epoch

    def cut(self, epoch: int) -> None:
        asked = self._asked
        super().cut(epoch)
        # Only what this attempt has brought is of all its key-groups.
        if asked is not None and self._first_own is not None and asked >= self._first_own:
            self._bases.append((asked, epoch))

    def forgettable(self, pending: Pending) -> int:
        """The epoch up to which the ledger is needed no more once this segment is there.

        An epoch that can still be restored has to have the base that stands for it. The newest row
        that is in the base stays: by it a chain is refused that lacks what was folded.
        """
        reachable = [up_to for up_to, first in self._bases if first <= self.folded]
        if not reachable:
            return NOTHING
        up_to = reachable[-1]
        self._bases = [each for each in self._bases if each[0] >= up_to]
        return up_to - 1
