"""How much time of the processors a process and all that it has started have taken, on Linux.

Where other programs run beside a measurement, seconds say how much of the machine was left for it;
this says what it needed. It is read in Flink's environment, too: it imports nothing but what comes
with Python.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Where the parent and the times stand behind the name of a process: its own, in code and in the
system, and those of children that have ended."""


def processor_s() -> float:
    """Seconds of all processors so far, of this process and of those below it."""
    every = dict(_processes())
    total, left = 0, [os.getpid()]
    while left:
        pid = left.pop()
        total += sum(map(int, every[pid][_TIMES]))
        left += [other for other, fields in every.items() if int(fields[_PARENT]) == pid]
    return total / _TICKS_PER_S


def _processes() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the two questions
        yield int(path.parent.name), text.rpartition(")")[2].split()
