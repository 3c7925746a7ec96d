"""Standard streams that may be missing or gone: a daemon has none, and a reader may have left.

A job does not depend on who watches it, so nothing here raises.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sits in front of a stream; nobody does if there is none, or it is closed."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def tell(text: str) -> None:
    """A line on standard error, if it is there."""
    # ``print`` takes standard output where it is given no stream.
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)
