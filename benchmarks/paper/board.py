"""What the processes of a measured job share: numbers in a file that all of them map, and a bell.

The conductor writes what sources may do. Sources and sinks write how far they are, and ring. A
number is written by one process alone. Who has written a line is seen by its process id, so that
those of an attempt that has ended are not taken for news.
"""

from __future__ import annotations

import mmap
import os
import select
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def _line(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


ORDERS = _line("turn", "batch", "batch_rows", "pace", "interval_ns")
"""``turn``: odd while sources are to give nothing. ``batch``: the micro-batch under way; 0 where
there are none. ``pace`` counts changes of ``interval_ns``, the time from one row of a split to the
next; 0 where rows come as fast as they are taken."""
SPLIT = _line("pid", "given", "seen_turn", "batch", "until", "done_batch")
"""``given``: the rows that this process gave. ``until``: the position at which ``batch`` ends."""
SINK = _line("pid", "rows", "epoch")
"""``rows``: those that this process took. ``epoch``: the last one that it has prepared."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a board is, and for how many sources and sinks. It travels with the job."""

    directory: str
    subtasks: int

    @property
    def numbers(self) -> Path:
        return Path(self.directory) / "board"

    @property
    def bell(self) -> Path:
        return Path(self.directory) / "bell"

    @property
    def size(self) -> int:
        return ORDERS.itemsize + self.subtasks * (SPLIT.itemsize + SINK.itemsize)


class Board:
    """The numbers, as this process sees them."""

    def __init__(self, place: Place) -> None:
        with place.numbers.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), place.size)
        at_sinks = ORDERS.itemsize + place.subtasks * SPLIT.itemsize
        self.orders: Any = np.frombuffer(mapped, ORDERS, 1)[0]
        self.splits: Any = np.frombuffer(mapped, SPLIT, place.subtasks, ORDERS.itemsize)
        self.sinks: Any = np.frombuffer(mapped, SINK, place.subtasks, at_sinks)
        self._bell = place.bell

    @staticmethod
    def create(place: Place) -> Board:
        place.numbers.write_bytes(bytes(place.size))
        return Board(place)

    @property
    def is_shut(self) -> bool:
        return bool(self.orders["turn"] % 2)

    def ring(self) -> None:
        """Tell the conductor that something has changed; it looks what that is."""
        # One that does not listen any more, or has not yet heard the last ring, need not hear it.
        with suppress(OSError):
            bell = os.open(self._bell, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b".")
            finally:
                os.close(bell)


class Bell:
    """What the conductor listens to."""

    def __init__(self, place: Place) -> None:
        os.mkfifo(place.bell)
        # For writing too: so it has no end when the last who rings has gone.
        self._file = os.open(place.bell, os.O_RDWR | os.O_NONBLOCK)

    def wait(self, timeout_s: float) -> None:
        """Until somebody rings, or has rung since the last call."""
        heard, _, _ = select.select([self._file], [], [], timeout_s)
        if heard:
            os.read(self._file, 1 << 16)

    def close(self) -> None:
        os.close(self._file)
