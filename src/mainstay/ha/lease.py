"""Leases in a storage: an election that needs nothing but create-if-absent.

A leader creates ``leader/0000000007`` and raises the counter in ``leader/0000000007.beat`` four
times in the length of a lease. What the others make of it is decided in ``watching``, how long the
leader may believe in it in ``tenure``.
"""

from __future__ import annotations

import json

from mainstay.ha.campaign import Campaign, CampaignElection, Clock, this_process, uptime
from mainstay.ha.tenure import Standing, Tenure
from mainstay.ha.told import Told
from mainstay.ha.watching import RESIGNED, Seen, Watching
from mainstay.snapshot.layout import LEASE_PREFIX, beat_path, lease_number, lease_path
from mainstay.snapshot.storage import NotFound, Storage

LEASE_FORMAT = 1


class LeaseElection(CampaignElection):
    """An election over a storage. ``job`` is for people: it stands in the leases.

    What a leader notes is not stored: the commit log says it, to all who can read the leases.
    """

    def __init__(
        self, storage: Storage, length_s: float, token: str, job: str = "", clock: Clock = uptime
    ) -> None:
        super().__init__(clock)
        self._settings = (storage, length_s, token, job, clock)

    def _new_campaign(self, told: Told) -> Campaign:
        return _Campaign(*self._settings, told)


class _Campaign(Campaign):
    """Takes the next lease when the newest is silent, and raises its own counter."""

    def __init__(
        self, storage: Storage, length_s: float, token: str, job: str, clock: Clock, told: Told
    ) -> None:
        super().__init__(length_s, clock, told)
        self._storage = storage
        self._token = token
        self._job = job
        self._watching = Watching(token, length_s)
        self._tenure: Tenure | None = None
        self._number = 0
        self._beats = 0

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
        self._storage.write(beat_path(self._number), RESIGNED.encode())
