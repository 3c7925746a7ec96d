"""An election in this process: a test says who leads."""

from __future__ import annotations

import threading

from mainstay.ha import election

PATIENCE_S = 30.0


class Candidate:
    """Stands for a job when its handle campaigns; the test elects it, and lets it lose."""

    can_win_again = True
    leader = "the other one"
    trouble = ""
    silent_s = 0.0

    def __init__(self) -> None:
        self.campaigns = 0
        self._is_candidate = threading.Event()
        self._candidate: election.Candidate | None = None

    def campaign(self, candidate: election.Candidate) -> None:
        self._candidate = candidate
        self.campaigns += 1
        self._is_candidate.set()

    def look(self) -> None:
        """Nothing happens by itself."""

    def note(self, attempt: int, epoch: int | None) -> None:
        self.noted = (attempt, epoch)

    def resign(self) -> None:
        self._is_candidate.clear()

    def elect(self) -> None:
        assert self._is_candidate.wait(PATIENCE_S), "it has never stood for election"
        assert self._candidate is not None
        self._candidate.elected()

    def lose(self) -> None:
        assert self._candidate is not None
        self._candidate.lost()

    def doubt(self) -> None:
        assert self._candidate is not None
        self._candidate.doubted()

    def assure(self) -> None:
        assert self._candidate is not None
        self._candidate.assured()
