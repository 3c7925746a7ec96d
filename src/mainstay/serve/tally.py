"""Counts that only grow, of lists that forget their oldest entries."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mainstay.serve.documents import EpochDetail, FailureDocument
from mainstay.serve.past import PENDING
from mainstay.serve.view import JobView

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
MOST_EPOCHS = 1000
DETAILED = 64
"""Of how many epochs the figures of subtasks are known at most."""
PHASES = ("start_delay", "alignment", "sync", "async")


@dataclass(slots=True)
class Histogram:
    """How many values are at most as large as each bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0

    def observe(self, value: float) -> None:
        place = next((n for n, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))
        self.counts[place] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Each bound with the count up to it, as Prometheus has them."""
        names = [*(f"{bound:g}" if bound % 1 else f"{bound:.1f}" for bound in BOUNDS), "+Inf"]
        total, found = 0, []
        for name, count in zip(names, self.counts, strict=True):
            total += count
            found.append((name, float(total)))
        return found


class Tally:
    """What has become of epochs and attempts since this process looks; any thread may ask."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.durations = Histogram()
        self.phases = {phase: Histogram() for phase in PHASES}
        self.last_bytes: int | None = None
        self._epoch = 0
        self._failure: tuple[int, float] = (-1, 0.0)
        self._lock = threading.Lock()

    def update(self, view: JobView) -> None:
        """Count what is new. Numbers of epochs are never used again."""
        with self._lock:
            self._count_epochs(view)
            self._count_failures(view.failures())

    def _count_epochs(self, view: JobView) -> None:
        ended = [each for each in view.epochs(MOST_EPOCHS) if each.status != PENDING]
        new = [each for each in ended if each.epoch > self._epoch]
        for each in new:
            self.epochs[each.status] += 1
            if each.status == "complete" and each.duration_s is not None:
                self.durations.observe(each.duration_s)
                self.last_bytes = each.size_bytes
        self._epoch = max([self._epoch, *(each.epoch for each in new)])
        complete = [each.epoch for each in new if each.status == "complete"]
        self._count_phases([view.epoch(number) for number in complete[-DETAILED:]])

    def _count_phases(self, epochs: Sequence[EpochDetail]) -> None:
        for epoch in epochs:
            for phase, histogram in self.phases.items() if epoch.subtasks else ():
                times = (getattr(each, f"{phase}_s") for each in epoch.subtasks)
                histogram.observe(max(times))

    def _count_failures(self, failures: Iterable[FailureDocument]) -> None:
        for each in failures:
            key = (each.attempt or 0, each.at)
            if key > self._failure:
                self._failure = key
                self.failures[each.outcome] += 1
