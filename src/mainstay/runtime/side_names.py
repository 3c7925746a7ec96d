"""Names of side outputs that operators of the runtime have by themselves."""

from __future__ import annotations

LATE = "late"
"""Rows that no window takes any more."""
LATE_LEFT, LATE_RIGHT = "late_left", "late_right"
"""Rows of either side that came too late for a join."""
TIMED_OUT = "timed_out"
"""Partial matches of a pattern whose time was over."""
