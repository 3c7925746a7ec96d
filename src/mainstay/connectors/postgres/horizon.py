"""The horizon: up to which value of a growing column a table has all rows it will ever have.

Values are given out before their rows can be seen. A transaction that took 7 and is still open
shows nothing, while another that took 8 is committed: a reader that has read up to 8 by
then never sees 7. So a value that is seen becomes the horizon only when

1. it was seen ``lag`` seconds ago, so that a writer that had taken a lower one by then has begun to
   write, and therefore has a transaction id; and
2. every transaction that had an id by then has ended. For that an id of our own is taken, which is
   higher than all that were given out: the oldest one that is running has to be younger. (The
   upper end of a snapshot will not do. It is one above the last transaction that has *ended*.)
"""

from __future__ import annotations

SOON_S = 0.05
"""How long after a look that waits for transactions comes the next."""


class Horizon:
    """Takes what is visible on a server, and says up to where rows may be read.

    In this order, as often as somebody looks: ``see`` the highest value; where it ``wants_id``,
    have an id given out and ``wait_for`` it; then, by another look, say who is ``running``.
    """

    def __init__(self, lag_s: float) -> None:
        self.settled: str | None = None
        self._lag_s = lag_s
        self._seen: str | None = None
        """A value that is to become the horizon."""
        self._seen_at = 0.0
        self.awaited: int | None = None
        """The id that all running transactions must have come up to."""

    def see(self, value: str | None, now: float) -> None:
        """The highest value there is."""
        if self._seen is None and value != self.settled:
            self._seen, self._seen_at = value, now

    def wants_id(self, now: float) -> bool:
        """Whether it is time to have a transaction id given out, higher than all before."""
        is_due = self._seen is not None and now - self._seen_at >= self._lag_s
        return is_due and self.awaited is None

    def wait_for(self, id: int) -> None:
        self.awaited = id

    def running(self, oldest: int) -> None:
        """The lowest id of a transaction that is running, or will be."""
        if self.awaited is not None and oldest >= self.awaited:
            self.settled, self._seen, self.awaited = self._seen, None, None

    def next_look_in_s(self, poll_s: float, now: float) -> float:
        """How long to wait before the next look, where there was nothing to read."""
        if self._seen is None:
            return poll_s
        if self.awaited is not None:
            return min(SOON_S, poll_s)
        return min(poll_s, max(self._lag_s - (now - self._seen_at), 0.0))
