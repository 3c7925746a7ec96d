"""What processes take: memory, descriptors, connections; sampled, and judged at the end.

The key space is bounded, so nothing may grow: the median of the last quarter of a run is compared
with that of the second. The first is when everything warms up.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import psutil

EVERY_S = 10.0
UNITS = ("rss_mb", "fds", "connections")
FEWEST = 12
"""With fewer samples a quarter says nothing."""
ROOM = {
    "rss_mb": (1.25, 40.0),
    "fds": (1.25, 16.0),
    "connections": (1.25, 8.0),
    "files": (1.5, 60.0),
}
"""By what a figure may grow: a factor, and so much beside it."""


@dataclass(frozen=True, slots=True)
class Course:
    """One figure of one kind of process over a run."""

    name: str
    unit: str
    second: float
    last: float
    is_flat: bool


class Samples:
    """Series of figures by name; one is a mean over the processes of a kind at a moment."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, name: str, unit: str, values: Sequence[float]) -> None:
        if values:
            self.series[name, unit].append(sum(values) / len(values))

    def courses(self) -> list[Course]:
        return [
            course(name, unit, values)
            for (name, unit), values in sorted(self.series.items())
            if len(values) >= FEWEST
        ]


def course(name: str, unit: str, values: Sequence[float]) -> Course:
    quarter = len(values) // 4
    second, last = median(values[quarter : 2 * quarter]), median(values[-quarter:])
    factor, room = ROOM[unit]
    return Course(name, unit, second, last, last <= max(second * factor, second + room))


class Sampler:
    """Looks every few seconds, in a thread. A kind of process is a name and how to find them."""

    def __init__(
        self,
        kinds: dict[str, Callable[[], Sequence[psutil.Process]]],
        figures: dict[tuple[str, str], Callable[[], float | None]],
    ) -> None:
        self.samples = Samples()
        self._kinds = kinds
        self._figures = figures
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.look()

    def look(self) -> None:
        for name, find in self._kinds.items():
            seen = [taken for each in _found(find) if (taken := taken_by(each)) is not None]
            for place, unit in enumerate(UNITS):
                self.samples.add(name, unit, [taken[place] for taken in seen])
        for (name, unit), figure in self._figures.items():
            value = figure()
            self.samples.add(name, unit, [] if value is None else [value])


def _found(find: Callable[[], Sequence[psutil.Process]]) -> Sequence[psutil.Process]:
    try:
        return find()
    except psutil.Error:
        return []  # one has ended while it was looked for


def taken_by(process: psutil.Process) -> tuple[float, float, float] | None:
    """None of one that is gone."""
    try:
        return (
            process.memory_info().rss / 1e6,
            float(process.num_fds()),
            float(len(process.net_connections("tcp"))),
        )
    except psutil.Error:
        return None
