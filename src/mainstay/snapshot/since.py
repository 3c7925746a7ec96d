"""What an attempt starts from, for those that keep things beside the snapshot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Since:
    """A complete epoch, and the attempt that has completed it."""

    epoch: int
    attempt: int


NOTHING_YET = Since(0, 0)
"""Where a job starts that has no epoch of its own."""
