"""Claims: a leader's way into the commit log, one slot at a time.

Winning a slot is the commit, and what the slot names must be durable before it is tried for. While
it is unknown whether a claim was won nothing else may be decided, so an undecided claim is asked
again until it is known, and there is never more than one.

While a leader doubts that it leads, it holds its claims: it tries for no slot, and what it has won
meanwhile is told when the doubt is over.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstay.errors import OutcomeUnknownError
from mainstay.runtime.coordinator.old_slots import OldSlots
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.ports import Ports
from mainstay.snapshot.commitlog import ClaimOutcome, claim_slot
from mainstay.snapshot.history import EpochCommitted, History, Record
from mainstay.snapshot.landmark import Landmark

ASK_AGAIN_S = 0.2


class Claims:
    """The log as one leader knows it, and the claim it has under way."""

    def __init__(
        self,
        ports: Ports,
        options: SnapshotOptions,
        token: Callable[[], str],
        lost: Callable[[int], None],
    ) -> None:
        self._is_busy = False
        self._history = History()
        self._retain = options.retain
        self._old_slots = OldSlots(ports, options.log_slots)
        self._ports = ports
        self._token = token
        self._lost = lost
        self._again: tuple[float, Callable[[], None]] | None = None
        self.is_held = False
        """Whether this leader doubts that it leads."""
        self._won_in_doubt: list[Callable[[], None]] = []

    @property
    def history(self) -> History:
        """The log as far as this leader knows it; of its epochs those that can still be kept."""
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        self._history = history.kept(self._retain)

    @property
    def landmark(self) -> Landmark | None:
        """The newest slot that this leader has won, by which others know the log."""
        facts = self._history.facts
        return None if facts.last_claim is None else Landmark(facts.next_slot - 1, facts.last_claim)

    @property
    def is_settled(self) -> bool:
        """Whether the history is all that this leader has claimed, and it may claim more."""
        return not self._is_busy and not self.is_held

    def hold(self, is_held: bool) -> None:
        """Claim nothing from now on, or go on where it was held."""
        self.is_held = is_held
        if not is_held:
            won, self._won_in_doubt = self._won_in_doubt, []
            for tell in won:
                tell()

    def commit(
        self,
        write: Callable[[], EpochCommitted],
        won: Callable[[EpochCommitted], None],
        failed: Callable[[Exception], None],
        *,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Store in the background what a record names, then try for the slot: in this order.

        ``write`` gives the record once all that it names is durable, and must not touch what the
        loop changes.

        Exactly one of won, failed and lost is called, some time later; none where
        ``is_wanted``, which is asked once the file is durable, says no. Other claims are kept out
        from the beginning, so that commits keep their order.
        """
        self._take_turn()

        def written(record: EpochCommitted) -> None:
            self._is_busy = False
            if is_wanted():
                self.claim(record, lambda: won(record), failed)

        def not_written(error: Exception) -> None:
            self._is_busy = False
            failed(error)

        self._ports.background.submit(write, written, not_written)

    def claim(
        self, record: Record, won: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Try for the next slot. Exactly one of won, failed and lost is called, some time later.

        ``failed`` means that the record is not in the log and never will be.
        """
        self._take_turn()
        history, token, storage = self.history, self._token(), self._ports.storage

        def ask() -> None:
            if self.is_held:
                self._again = (self._ports.clock.monotonic(), ask)
                return
            self._ports.background.submit(
                lambda: claim_slot(storage, history, record, token), decided, undecided
            )

        def decided(outcome: ClaimOutcome) -> None:
            if outcome is ClaimOutcome.LOST:
                self._is_busy = False
                self._lost(history.next_slot)
            elif self.is_held:
                self._won_in_doubt.append(has_won)
            else:
                has_won()

        def has_won() -> None:
            self._is_busy = False
            self.history = history.with_record(record, token)
            self._old_slots.won(self.history.next_slot)
            won()

        def undecided(error: Exception) -> None:
            if isinstance(error, OutcomeUnknownError):
                self._again = (self._ports.clock.monotonic() + ASK_AGAIN_S, ask)
                return
            self._is_busy = False
            failed(error)

        ask()

    def _take_turn(self) -> None:
        assert not self._is_busy, "two claims at a time"
        self._is_busy = True

    def tick(self, now: float) -> None:
        if self._again is not None and not self.is_held and now >= self._again[0]:
            ask, self._again = self._again[1], None
            ask()

    def deadline(self) -> float | None:
        return None if self._again is None or self.is_held else self._again[0]
