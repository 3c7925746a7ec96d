"""Watching: what a candidate does about the numbered leases that it sees. Pure.

Every leader has a number, one more than the one before it, and a beat: a counter that it raises
while it leads. A candidate that has seen the newest number with the same beat for the whole length
of a lease, by its own clock, takes the next number, and leads with it. It is told what was seen and
when, and says what to do.

The owner of the old number leads no more by then. Its last renewal that counts was in the store
before it was over for its owner, so the candidate has seen it, and has waited for longer.
"""

from __future__ import annotations

from dataclasses import dataclass

RESIGNED = "resigned"
"""In the place of a beat: nobody has to wait for this lease."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest lease: its number (0 where there is none), whose it is, and its beat."""

    number: int
    owner: str = ""
    beat: str = ""


class Watching:
    """One candidate that is in line."""

    def __init__(self, token: str, length_s: float) -> None:
        self._token = token
        self._length_s = length_s
        self._last: Seen | None = None
        self._since = 0.0

    @property
    def seen(self) -> Seen | None:
        """The newest lease, as it was last seen."""
        return self._last

    def saw(self, seen: Seen, begun_at: float, now: float) -> int | None:
        """What a look has found; returns the number to take, None to go on watching.

        The look was begun at one time and is over by another: a beat is unchanged from the end of
        the first look to the beginning of the last. A candidate that was frozen has not looked
        meanwhile, so what it remembers proves nothing.
        """
        last, self._last = self._last, seen
        if last is not None and seen.number < last.number:
            # A listing that is behind; or somebody has deleted the leases, which is believed later.
            is_old = begun_at - self._since >= self._length_s
            self._last, self._since = (seen, now) if is_old else (last, self._since)
            return None
        if last is None or seen != last:
            self._since = now
        if self._is_free(seen) or begun_at - self._since >= self._length_s:
            return seen.number + 1
        return None

    def _is_free(self, seen: Seen) -> bool:
        """Whether nobody has to be waited for: its owner resigned, or is this candidate itself."""
        return seen.number == 0 or seen.beat == RESIGNED or seen.owner == self._token

    def silent_s(self, now: float) -> float:
        """For how long the newest lease has not changed."""
        return 0.0 if self._last is None or self._last.number == 0 else now - self._since

    def check_invariants(self, now: float) -> None:
        """What holds at any moment."""
        assert self._since <= now, "a change was seen in the future"
        assert self._last is None or self._last.number >= 0, "a number below zero"
