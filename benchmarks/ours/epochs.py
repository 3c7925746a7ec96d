"""What the epochs of a running job cost, over all of its subtasks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.ours.visits import PageTotals, checked, loaded_job
from benchmarks.report import median
from mainstay.bench.running import Window, observe
from mainstay.runtime.coordinator.epochs import EpochRecord


@dataclass(frozen=True, slots=True)
class EpochCosts:
    """Of each epoch the slowest subtask counts; over the epochs, the median."""

    window: Window
    is_right: bool

    def slowest(self, figure: str, over: Callable[[Sequence[float]], float] = median) -> float:
        return over([_slowest(record, figure) for record in self.window.epochs])

    @property
    def total_s(self) -> float:
        return median([record.duration_s for record in self.window.epochs])

    @property
    def size_bytes(self) -> float:
        return median([record.size_bytes for record in self.window.epochs])


def _slowest(record: EpochRecord, figure: str) -> float:
    return max(getattr(figures, figure) for figures in record.figures.values())


def epoch_costs(
    place: str,
    seconds: float,
    pages: int,
    *,
    shuffles: int = 1,
    parallelism: int = 2,
    every_s: float = 1.0,
) -> EpochCosts:
    """Run a job whose state is full, and look at its epochs."""
    workload = PageTotals(pages, shuffles)
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        settings = {"parallelism": parallelism, "every_s": every_s}
        with loaded_job(workload, directory, place, **settings) as (job, env):
            window = observe(job, directory, seconds, warm_up_s=0.0)
        is_right = checked(workload, directory, env)
    return EpochCosts(window, is_right)
