"""An election in this process: a test says who leads."""

from __future__ import annotations

import threading
from collections.abc import Callable

PATIENCE_S = 30.0


class Candidate:
    """Stands for a job when its handle campaigns; the test elects it, and lets it lose."""

    can_win_again = True

    def __init__(self) -> None:
        self.campaigns = 0
        self._is_candidate = threading.Event()
        self._elected: Callable[[], None] | None = None
        self._lost: Callable[[], None] | None = None

    def campaign(self, elected: Callable[[], None], lost: Callable[[], None]) -> None:
        self._elected, self._lost = elected, lost
        self.campaigns += 1
        self._is_candidate.set()

    def resign(self) -> None:
        self._is_candidate.clear()

    def elect(self) -> None:
        assert self._is_candidate.wait(PATIENCE_S), "it has never stood for election"
        assert self._elected is not None
        self._elected()

    def lose(self) -> None:
        assert self._lost is not None
        self._lost()
