"""Old slots of the commit log: deleted by the leader, because the newest slot says all they say."""

from __future__ import annotations

from mainstay.runtime.ports import Ports
from mainstay.snapshot.commitlog import delete_slots, slots_below

AT_ONCE = 1000
"""How many slots one pass deletes: a log of an older version may have very many."""


class OldSlots:
    """Deletes all but the newest slots, some at a time and in the background."""

    def __init__(self, ports: Ports, kept: int) -> None:
        self._ports = ports
        self._kept = kept
        self._won = 0
        self._is_busy = False

    def won(self, next_slot: int) -> None:
        """A slot was won; ``next_slot`` is the one after it."""
        limit = next_slot - self._kept
        # The first pass of a leader also deletes what others left.
        is_due = self._won % max(self._kept // 2, 1) == 0
        self._won += 1
        if self._is_busy or not is_due or limit <= 1:
            return
        self._is_busy = True
        storage = self._ports.storage

        def work() -> None:
            delete_slots(storage, slots_below(storage, limit)[:AT_ONCE])

        # What could not be deleted is found again by the next pass.
        self._ports.background.submit(work, self._done, self._done)

    def _done(self, _: object) -> None:
        self._is_busy = False
