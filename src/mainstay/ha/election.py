"""Election: which of several processes leads a job.

An election decides who tries, never what counts: that is up to the commit log, in which a leader
that was replaced loses its next slot. Two processes that believe to lead at the same time cost
time, and no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Election(Protocol):
    """One candidate's view of the election for one job."""

    can_win_again: bool
    """Whether a candidate that has lost may be elected later."""

    def campaign(self, elected: Callable[[], None], lost: Callable[[], None]) -> None:
        """Be a candidate from now on, until ``resign``.

        ``elected`` and ``lost`` are called in turn, ``elected`` first: at once or later, from any
        thread. They return soon and never call the election themselves. A candidate that has lost
        stays one.
        """

    def resign(self) -> None:
        """Be no candidate any more, and leave the lead to another one.

        Also where there was no campaign. One that comes later is a new one.
        """


class Alone:
    """For a job with one process: it leads at once, and never loses the lead to an election."""

    can_win_again = False

    def campaign(self, elected: Callable[[], None], lost: Callable[[], None]) -> None:
        elected()

    def resign(self) -> None:
        """There is nobody to leave the lead to."""
