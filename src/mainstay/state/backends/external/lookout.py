"""When votes have been in doubt for so long that somebody should know. Decisions only.

A vote waits for the end of its epoch, as a rule for a moment. While it does it holds locks, and the
server cannot vacuum what has died since. So a subtask whose own vote waits long asks the database
what is in doubt for the whole operator, and the first of those who wait tells it for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mainstay.state.backends.contract import Doubts, Work
from mainstay.state.backends.external.votes import Doubt, Vote

LONG_S = 60.0
"""How long a vote may be in doubt before it is told."""
AGAIN_S = 10.0
"""How often the database is asked after that."""


class Lookout:
    """Watches the vote of one subtask. ``look`` asks the database, in the background."""

    def __init__(
        self, look: Callable[[], Sequence[Doubt]], failed: Callable[[Exception], None]
    ) -> None:
        self._look, self._failed = look, failed
        self._vote: Vote | None = None
        self._due_at = 0.0
        self._is_due = False
        self._told: Doubts | None = None

    def told(self, now: float, vote: Vote | None) -> Doubts | None:
        """What is to be told. ``vote`` is the subtask's own that is in doubt now, if one is."""
        if vote is not self._vote:
            self._vote, self._told, self._is_due = vote, None, False
            self._due_at = now + LONG_S
        if vote is not None and now >= self._due_at:
            self._is_due, self._due_at = True, now + AGAIN_S
        return self._told

    def next_work(self) -> Work | None:
        """A look at the database, if it is time for one."""
        if not self._is_due:
            return None
        self._is_due = False
        return Work(self._look, partial(self._seen, self._vote), self._failed)

    def _seen(self, vote: Vote | None, found: Sequence[Doubt]) -> None:
        if vote is not self._vote:
            return
        long = sorted(
            (each for each in found if each.age_s >= LONG_S),
            key=lambda each: (each.vote.attempt, each.vote.groups.first),
        )
        if not long or long[0].vote != vote:
            # It was settled meanwhile, or another subtask tells.
            self._told = None
            return
        oldest_s = max(each.age_s for each in long)
        self._told = Doubts(vote.epoch, oldest_s, tuple(each.end for each in long))
