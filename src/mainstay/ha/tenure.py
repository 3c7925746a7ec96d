"""Tenure: how long a leader may take itself for the leader, by its own monotonic clock.

A lease counts from the moment at which its last renewal was *begun*: others can have seen the
renewal no sooner than that, and wait for the whole length after they have seen it. So it is over
here before it is over for anybody else, without two clocks ever being compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Standing(Enum):
    """How a leader stands with its lease."""

    GOOD = "good"
    IN_DOUBT = "in doubt"
    """It could not be renewed for half its length: nothing may be decided."""
    OVER = "over"
    """Its whole length has passed: somebody else may lead."""


@dataclass(slots=True)
class Tenure:
    """The lease of a leader: pure, told the time by its caller."""

    length_s: float
    renewed_at: float
    is_over: bool = False

    def renewed(self, begun_at: float, now: float) -> bool:
        """A renewal that was begun at a time has worked; False if that is too late."""
        if self.standing(now) is Standing.OVER:
            return False
        self.renewed_at = max(self.renewed_at, begun_at)
        return True

    def standing(self, now: float) -> Standing:
        """Once it is over it stays over, whatever the clock says later."""
        passed = now - self.renewed_at
        self.is_over = self.is_over or passed >= self.length_s
        if self.is_over:
            return Standing.OVER
        return Standing.IN_DOUBT if passed >= self.length_s / 2 else Standing.GOOD

    def end(self) -> None:
        """Somebody else leads, or this leader has resigned."""
        self.is_over = True
