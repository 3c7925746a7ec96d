"""How changes come into the database by two-phase commit: the protocol ``prepared``.

When the segments of an epoch are durable, all that the database lacks up to it is one transaction,
which is prepared: that is the database's vote, and the subtask acknowledges the epoch after it.
When the epoch is complete the vote is committed, and only then do its changes leave memory; when it
is given up the vote is rolled back, and its segments go with the next one.

A vote holds locks on its rows, so there is one at a time. What is committed in the log and in no
vote is applied as ``logged`` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mainstay.errors import FencedError
from mainstay.state.backends.contract import Doubts, Work
from mainstay.state.backends.external.ledger import Pending
from mainstay.state.backends.external.logged import Logged
from mainstay.state.backends.external.lookout import Lookout
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.store import StoreAwayError, patiently, uncovered
from mainstay.state.backends.external.votes import Vote


@dataclass(slots=True, eq=False)
class InDoubt:
    """A vote of which the database has been told, or is about to be.

    ``is_complete`` says what became of its epoch; None while nobody has said.
    """

    vote: Vote
    segments: list[Pending]
    forget_up_to: int
    is_prepared: bool = False
    is_complete: bool | None = None


class Prepared(Logged):
    """Brings the changes of one subtask to its database, a vote for each epoch."""

    holds_epochs = True

    def __init__(self, own: OwnTables, on_applied: Callable[[int], None]) -> None:
        super().__init__(own, on_applied)
        self._in_doubt: InDoubt | None = None
        self._is_checked = False
        self._lookout = Lookout(lambda: own.store.doubts(own.set), self.failed)
        self._cut: list[int] = []
        """Epochs that are cut and not voted for, oldest first."""

    # ------------------------------------------------------------ what happens

    def on_cut(self, epoch: int) -> None:
        super().on_cut(epoch)
        self._cut.append(epoch)

    def on_complete(self, epoch: int) -> None:
        super().on_complete(epoch)
        self._cut = [each for each in self._cut if each > epoch]
        found = self._in_doubt
        if found is not None and found.is_complete is None and found.vote.epoch <= epoch:
            found.is_complete = True

    def on_abort(self, epoch: int) -> None:
        self._cut = [each for each in self._cut if each != epoch]
        found = self._in_doubt
        if found is not None and found.is_complete is None and found.vote.epoch == epoch:
            found.is_complete = False

    def in_doubt(self, now: float) -> Doubts | None:
        found = self._in_doubt
        vote = found.vote if found is not None and found.is_prepared else None
        return self._lookout.told(now, vote)

    def has_voted(self, epoch: int) -> bool:
        """While somebody reads an earlier epoch from outside, the last vote cannot be committed.

        Then later epochs do without one: what they change is applied afterwards.
        """
        if not self.unapplied.up_to(epoch):
            return True
        found = self._in_doubt
        if found is None or not found.is_prepared:
            return False
        is_for_it = found.is_complete is None and found.vote.epoch >= epoch
        return is_for_it or self._is_held(found)

    def _is_held(self, found: InDoubt) -> bool:
        return found.is_complete is None and found.vote.epoch <= self.held

    # ------------------------------------------------------------ in the background

    @property
    def is_busy(self) -> bool:
        found = self._in_doubt
        if self._is_applying or found is None:
            return super().is_busy or bool(self._next_vote())
        return not found.is_prepared or found.is_complete is not None

    def next_work(self) -> Work | None:
        # Beside what is under way: that may be what others wait for.
        return super().next_work() or self._lookout.next_work()

    def _next_step(self) -> Work | None:
        if not self._is_checked:
            return self._in_background(self._check, self._checked)
        if self._in_doubt is None:
            applying = super()._next_step()
            if applying is not None:
                return applying
            self._begin_vote()
        return None if self._in_doubt is None else self._settling(self._in_doubt)

    def _check(self) -> None:
        """Soon, so that a server that cannot is known, and what others have left is settled."""
        place = self.own.place
        self.own.store.check_votes(place.max_parallelism // (len(place.groups) + 1) + 1)
        self.admit()

    def _checked(self, _: object) -> None:
        self._is_checked = True

    def _next_vote(self) -> list[Pending]:
        """The segments of the oldest epoch without a vote, once they are durable."""
        while self._cut:
            segments = self.unapplied.up_to(self._cut[0])
            if segments:
                is_durable = all(each.tables is not None for each in segments)
                return segments if is_durable else []
            self._cut.pop(0)
        return []

    def _begin_vote(self) -> None:
        segments = self._next_vote()
        if segments:
            vote = self.own.vote(self._cut.pop(0))
            self._in_doubt = InDoubt(vote, segments, self.unapplied.forgettable(segments[-1]))

    def _settling(self, found: InDoubt) -> Work | None:
        """The next thing to be done about a vote. Where its outcome is not known it is repeated."""
        if found.is_complete is not None:
            act = self._commit if found.is_complete else self._roll_back
            return self._in_background(partial(act, found), partial(self._settled, found))
        if found.is_prepared:
            return None

        def prepared(_: object) -> None:
            found.is_prepared = True

        return self._in_background(partial(self._prepare, found), prepared)

    def _prepare(self, found: InDoubt) -> None:
        self.own.prepare(found.vote, found.segments, found.forget_up_to)

    def _commit(self, found: InDoubt) -> bool:
        """Whether the database has the changes. The ledger says it of a vote that is gone."""
        return self.own.store.commit_vote(found.vote) or self._is_in_ledger(found)

    def _is_in_ledger(self, found: InDoubt) -> bool:
        rows = self.own.applied()
        return not any(
            uncovered(each.groups, [row for row in rows if row.segment == each.segment])
            for each in found.segments
        )

    def _roll_back(self, found: InDoubt) -> bool:
        self.own.store.roll_back_vote(found.vote)
        return False

    def _settled(self, found: InDoubt, is_there: bool) -> None:
        """Nothing is in doubt. What is not there goes with the next vote, or is applied."""
        self._in_doubt = None
        if is_there:
            for pending in found.segments:
                self._applied(pending)

    # ------------------------------------------------------------ the end

    def end(self) -> None:
        """Commit what is complete, so that others find it."""
        self.on_complete(self.held)
        found = self._in_doubt
        if found is not None:
            if found.is_complete is None:
                return
            try:
                self._end_doubt(found)
            except (StoreAwayError, FencedError) as error:
                self.trouble = error
                return
        super().end()

    def _end_doubt(self, found: InDoubt) -> None:
        act = self._commit if found.is_complete else self._roll_back
        is_there = patiently(partial(act, found))
        self._in_doubt = None
        for pending in found.segments if is_there else ():
            self.unapplied.applied(pending)
