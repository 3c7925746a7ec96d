"""Campaigns: a process stands for election on a thread of its own, until it leaves.

Where the election is held is up to the campaign; what a process asks of it is the same everywhere.
Input and output happen on the campaign's thread alone, so that a store that does not answer holds
up nobody else: ``look`` asks nobody but the clock.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable

from mainstay.errors import brief
from mainstay.ha.election import Candidate
from mainstay.ha.told import Told

BEATS = 4
"""How often a lease is renewed within its length: a doubt begins when two renewals failed."""
LOOK_S = 2.5
"""How often a process in line looks at least: a leader may resign at any time."""
RESIGN_S = 3.0
"""How long a process waits at its end for a store that does not answer."""

Clock = Callable[[], float]


def uptime() -> float:
    """Seconds that go on while this process, or the whole machine, is asleep."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def this_process() -> str:
    """How people know this process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


class Campaign(threading.Thread):
    """Stands in line, and renews the lease while it leads, until it leaves.

    A subclass says what it does each time (``_take_part``) and at the end (``_hand_over``).
    """

    def __init__(self, length_s: float, clock: Clock, told: Told) -> None:
        super().__init__(name="mainstay-election", daemon=True)
        self.told = told
        self.leader = ""
        self.trouble = ""
        self.silent_s = 0.0
        self.standing: tuple[int | None, int | None] = (None, None)
        """The attempt that runs and its last epoch, as far as the leader has noted."""
        self._length_s = length_s
        self._clock = clock
        self._is_over = threading.Event()
        self._wake = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._take_part()
                self.trouble = ""
            except Exception as error:
                # Whatever it is, it is tried again: what was done is read back from the store.
                self.trouble = brief(error)
            self.told.look(self._clock())
            self._wake.wait(self._pause_s)
            self._wake.clear()
        try:
            self._hand_over()
        except Exception as error:
            self.trouble = brief(error)  # the lease ends by itself

    @property
    def _pause_s(self) -> float:
        beat_s = self._length_s / BEATS
        return beat_s if self.told.leads else min(beat_s, LOOK_S)

    def leave(self) -> None:
        """Be no candidate any more; a store that does not answer is not waited for long."""
        self._is_over.set()
        self._wake.set()
        self.join(RESIGN_S)
        self.told.close()

    def _take_part(self) -> None:
        """Look who leads, and lead or renew if it is this process; may raise anything."""
        raise NotImplementedError

    def _hand_over(self) -> None:
        """Leave the lead, so that nobody has to wait for it; may raise anything."""
        raise NotImplementedError


class CampaignElection:
    """An election in which a process takes part by a campaign at a time."""

    can_win_again = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._campaign: Campaign | None = None

    def _new_campaign(self, told: Told) -> Campaign:
        raise NotImplementedError

    def campaign(self, candidate: Candidate) -> None:
        self._campaign = self._new_campaign(Told(candidate))
        self._campaign.start()

    def look(self) -> None:
        if self._campaign is not None:
            self._campaign.told.look(self._clock())

    def note(self, attempt: int, epoch: int | None) -> None:
        if self._campaign is not None:
            self._campaign.standing = (attempt, epoch)

    def resign(self) -> None:
        campaign, self._campaign = self._campaign, None
        if campaign is not None:
            campaign.leave()

    @property
    def leader(self) -> str:
        return "" if self._campaign is None else self._campaign.leader

    @property
    def trouble(self) -> str:
        return "" if self._campaign is None else self._campaign.trouble

    @property
    def silent_s(self) -> float:
        return 0.0 if self._campaign is None else self._campaign.silent_s
