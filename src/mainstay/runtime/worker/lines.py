"""Which channels of an output hold something back, so that nobody has to look at the others.

A task asks at every step whether its outputs have room, and a worker often whether there is
anything to flush. With a thousand receivers that must not be a thousand questions.
"""

from __future__ import annotations


class Lines:
    """What the channels of one output hold back; each keeps it up to date itself."""

    __slots__ = ("gathering", "has_moved", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        """Channels with something in line, for want of credit."""
        self.gathering: set[int] = set()
        """The numbers of the channels that gather rows."""
        self.has_moved = True
        """Whether credit, or the size of rows, has changed since somebody has set this to False."""
