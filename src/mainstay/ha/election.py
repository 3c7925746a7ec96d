"""Election: which of several processes leads a job.

An election decides who tries, never what counts: that is up to the commit log, in which a leader
that was replaced loses its next slot. Two processes that believe to lead at the same time cost
time, and no row.

::

    campaign ──▶ in line ── elected ──▶ leads ── doubted ──▶ leads in doubt
                    ▲                   │  ▲                   │    │
                    │                   │  └───── assured ─────┘    │
                    └────── lost ◀──────┴──────────── lost ─────────┘
"""

from __future__ import annotations

from typing import Protocol


class Candidate(Protocol):
    """Who stands for election: it is told four things, from any thread, and returns soon.

    It never calls the election while it is told something.
    """

    def elected(self) -> None:
        """It leads from now on."""

    def doubted(self) -> None:
        """It could not renew its lease for half of its length: it decides nothing for now."""

    def assured(self) -> None:
        """It still leads, after a doubt."""

    def lost(self) -> None:
        """It leads no more. It stays in line, and may be elected again."""


class Election(Protocol):
    """One process's view of the election for one job."""

    can_win_again: bool
    """Whether a candidate that has lost may be elected later."""

    def campaign(self, candidate: Candidate) -> None:
        """Be a candidate from now on, until ``resign``. It may be elected at once, or later."""

    def look(self) -> None:
        """Notice what time alone has done to the lease; does no input or output.

        Called by the candidate before it does anything else: it may have been frozen.
        """

    def resign(self) -> None:
        """Be no candidate any more, and leave the lead to another one.

        Also where there was no campaign. One that comes later is a new one.
        """

    def note(self, attempt: int, epoch: int | None) -> None:
        """Where the job stands that this process leads, for others to see. Nobody depends on it."""

    @property
    def leader(self) -> str:
        """Who leads, as far as is known; empty where it is not."""

    @property
    def trouble(self) -> str:
        """What keeps the election from working just now; empty where nothing does."""

    @property
    def silent_s(self) -> float:
        """For how long the last leader had shown no sign of life when this one was elected."""


class Alone:
    """For a job with one process: it leads at once, and never loses the lead to an election."""

    can_win_again = False
    leader = ""
    trouble = ""
    silent_s = 0.0

    def campaign(self, candidate: Candidate) -> None:
        candidate.elected()

    def look(self) -> None:
        """Nothing happens to it."""

    def note(self, attempt: int, epoch: int | None) -> None:
        """There is nobody to see it."""

    def resign(self) -> None:
        """There is nobody to leave the lead to."""
