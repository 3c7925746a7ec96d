"""Leases in a storage: an election that needs nothing but create-if-absent.

A leader creates ``leader/0000000007`` and raises the counter in ``leader/0000000007.beat`` four
times in the length of a lease. What the others make of it is decided in ``watching``, how long the
leader may believe in it in ``tenure``. A thread does the input and output; a storage that does not
answer holds up that thread alone, because ``look`` asks nobody but the clock.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

from mainstay.errors import MainstayError, brief
from mainstay.ha.election import Candidate
from mainstay.ha.tenure import Standing, Tenure
from mainstay.ha.told import Told
from mainstay.ha.watching import RESIGNED, Seen, Watching
from mainstay.snapshot.layout import LEASE_PREFIX, beat_path, lease_number, lease_path
from mainstay.snapshot.storage import NotFound, Storage

LEASE_FORMAT = 1
BEATS = 4
"""How often a lease is renewed within its length: a doubt begins when two renewals failed."""
RESIGN_S = 3.0
"""How long a process waits at its end for a storage that does not answer."""

Clock = Callable[[], float]


def uptime() -> float:
    """Seconds that go on while this process, or the whole machine, is asleep."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def this_process() -> str:
    """How people know this process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


class LeaseElection:
    """An election over a storage. ``job`` is for people: it stands in the leases."""

    can_win_again = True

    def __init__(
        self, storage: Storage, length_s: float, token: str, job: str = "", clock: Clock = uptime
    ) -> None:
        self._settings = (storage, length_s, token, job, clock)
        self._clock = clock
        self._campaign: _Campaign | None = None

    def campaign(self, candidate: Candidate) -> None:
        self._campaign = _Campaign(*self._settings, Told(candidate))
        self._campaign.start()

    def look(self) -> None:
        if self._campaign is not None:
            self._campaign.told.look(self._clock())

    def note(self, attempt: int, epoch: int | None) -> None:
        """The commit log says it, to everybody who can read the leases."""

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


class _Campaign(threading.Thread):
    """Stands in line, and renews the lease while it leads, until it leaves."""

    def __init__(
        self, storage: Storage, length_s: float, token: str, job: str, clock: Clock, told: Told
    ) -> None:
        super().__init__(name="mainstay-election", daemon=True)
        self.told = told
        self.leader = ""
        self.trouble = ""
        self.silent_s = 0.0
        self._storage = storage
        self._length_s = length_s
        self._token = token
        self._job = job
        self._clock = clock
        self._watching = Watching(token, length_s)
        self._tenure: Tenure | None = None
        self._number = 0
        self._beats = 0
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._take_part()
                self.trouble = ""
            except Exception as error:
                self.trouble = brief(error)  # whatever it is, it is tried again
            self.told.look(self._clock())
            self._is_over.wait(self._length_s / BEATS)
        self._hand_over()

    def leave(self) -> None:
        """Be no candidate any more; a storage that does not answer is not waited for long."""
        self._is_over.set()
        self.join(RESIGN_S)
        self.told.close()

    def _take_part(self) -> None:
        if self._tenure is not None and self._tenure.standing(self._clock()) is Standing.OVER:
            self.told.lost()
            self._tenure = None
        if self._tenure is None:
            self._watch()
        else:
            self._renew(self._tenure)

    # ------------------------------------------------------------ in line

    def _watch(self) -> None:
        begun_at = self._clock()
        seen = self._newest()
        now = self._clock()
        number = self._watching.saw(seen, begun_at, now)
        self.silent_s = self._watching.silent_s(now)
        if number is not None:
            self._take(number)

    def _newest(self) -> Seen:
        newest = self._newest_number()
        if newest == 0:
            return Seen(0)
        owner, self.leader = self._owner(newest)
        return Seen(newest, owner, self._beat(newest) or "")

    def _owner(self, number: int) -> tuple[str, str]:
        """The token of a leader, and how people know it."""
        try:
            document = json.loads(self._storage.read(lease_path(number)))
            return str(document["token"]), str(document["who"])
        except (NotFound, ValueError, KeyError, TypeError):
            return "", "a process of another version"  # it is watched by its beat all the same

    def _beat(self, number: int) -> str | None:
        try:
            return self._storage.read(beat_path(number)).decode(errors="replace")
        except NotFound:
            return None

    def _take(self, number: int) -> None:
        begun_at = self._clock()
        who = this_process()
        document = {"format": LEASE_FORMAT, "token": self._token, "who": who, "job": self._job}
        if not self._storage.create(lease_path(number), json.dumps(document).encode()):
            return
        # A candidate that has slept may have made a number again that was deleted long ago.
        if self._newest_number() != number:
            return
        self.leader = who
        self._number, self._beats = number, 0
        tenure = Tenure(self._length_s, begun_at)
        if self.told.elected(tenure, self._clock()):
            self._tenure = tenure
            self._delete_older()

    def _newest_number(self) -> int:
        found = (lease_number(path) for path in self._storage.list(LEASE_PREFIX))
        return max((number for number in found if number is not None), default=0)

    # ------------------------------------------------------------ in the lead

    def _renew(self, tenure: Tenure) -> None:
        begun_at = self._clock()
        self._beats += 1
        self._storage.write(beat_path(self._number), str(self._beats).encode())
        # A renewal counts only if nobody had taken the next number by then. Where somebody has
        # deleted the leases, others take a low one, which may be this one again.
        if self._newest_number() != self._number or self._owner(self._number)[0] != self._token:
            tenure.end()
        else:
            self.told.renewed(begun_at, self._clock())
        if tenure.is_over:
            self.told.lost()
            self._tenure = None  # it is in line again

    def _delete_older(self) -> None:
        """The lease before stays: it says who led before this one."""
        for path in self._storage.list(LEASE_PREFIX):
            number = lease_number(path.removesuffix(".beat"))
            if number is not None and number < self._number - 1 and self.told.leads:
                self._storage.delete(path)

    def _hand_over(self) -> None:
        """Nobody has to wait for a lease whose owner has left."""
        if self._tenure is None or self._tenure.is_over:
            return
        self._tenure.end()
        try:
            self._storage.write(beat_path(self._number), RESIGNED.encode())
        except MainstayError as error:
            self.trouble = str(error)
