"""Trying again: how long to wait after failures in a row, and when to give up."""

from __future__ import annotations

RETRY_S = 0.5
LONGEST_S = 30.0
MAX_RETRIES = 20


class Retry:
    """The failures in a row of something that is done again and again until it works."""

    __slots__ = ("at", "failures")

    def __init__(self) -> None:
        self.failures = 0
        self.at: float | None = None
        """When to try again; None while nothing has failed."""

    @property
    def is_waiting(self) -> bool:
        return self.at is not None

    @property
    def is_hopeless(self) -> bool:
        return self.failures > MAX_RETRIES

    def failed(self, now: float) -> None:
        self.failures += 1
        self.at = now + min(RETRY_S * 2.0 ** min(self.failures, 16), LONGEST_S)

    def succeeded(self) -> None:
        self.failures, self.at = 0, None

    def is_due(self, now: float) -> bool:
        """Whether the wait is over; it is asked once."""
        if self.at is None or now < self.at:
            return False
        self.at = None
        return True
