"""How many examples a search draws: the suite half as many as ``make soak``."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """``count`` in the soak, which draws others each time; the suite draws the same each time."""
    return count if os.environ.get("MAINSTAY_HYPOTHESIS") == "search" else max(1, count // 2)
