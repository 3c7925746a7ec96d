"""What a candidate is told: each change of its standing once, and in order."""

from __future__ import annotations

import threading

from mainstay.ha.election import Candidate
from mainstay.ha.tenure import Standing, Tenure


class Told:
    """Follows the tenure of one candidate. Safe to call from several threads.

    The lock is held while the candidate hears something, so that nothing overtakes anything.
    """

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._lock = threading.Lock()
        self._tenure: Tenure | None = None
        self._is_in_doubt = False
        self._is_closed = False

    @property
    def leads(self) -> bool:
        """Whether the candidate was elected and has not lost."""
        return self._tenure is not None

    def elected(self, tenure: Tenure, now: float) -> bool:
        """It leads from now on, unless its tenure is over already, or it left."""
        with self._lock:
            is_good = tenure.standing(now) is Standing.GOOD
            if self._is_closed or self._tenure is not None or not is_good:
                return False
            self._tenure = tenure
            self._is_in_doubt = False
            self._candidate.elected()
            return True

    def renewed(self, begun_at: float, now: float) -> None:
        """A renewal that was begun at a time has worked."""
        with self._lock:
            if self._tenure is None:
                return
            self._tenure.renewed(begun_at, now)
            self._tell(now)

    def doubted(self) -> None:
        """There is a reason for doubt before half of the lease has passed."""
        with self._lock:
            if self._tenure is not None and not self._is_in_doubt:
                self._is_in_doubt = True
                self._candidate.doubted()

    def lost(self) -> None:
        """Somebody else leads, or may."""
        with self._lock:
            if self._tenure is not None:
                self._tenure.end()
                self._tell(0.0)

    def look(self, now: float) -> None:
        """Tell what time alone has done. A doubt ends by a renewal, never by time."""
        with self._lock:
            if self._tenure is None:
                return
            if self._tenure.standing(now) is not Standing.GOOD:
                self._tell(now)

    def close(self) -> None:
        """The candidate has left: it hears nothing more."""
        with self._lock:
            self._is_closed = True
            self._tenure = None

    def _tell(self, now: float) -> None:
        assert self._tenure is not None
        standing = self._tenure.standing(now)
        if standing is Standing.OVER:
            self._tenure = None
            self._candidate.lost()
        elif standing is Standing.IN_DOUBT and not self._is_in_doubt:
            self._is_in_doubt = True
            self._candidate.doubted()
        elif standing is Standing.GOOD and self._is_in_doubt:
            self._is_in_doubt = False
            self._candidate.assured()
