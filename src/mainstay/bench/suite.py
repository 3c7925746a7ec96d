"""What ``mainstay bench`` runs, one after the other, and what each came to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mainstay.bench.bare import bare_rate
from mainstay.bench.measuring import measure
from mainstay.bench.workloads import RECORDS_PER_S, Aggregated, ByBatch, ByRow, Paced, Workload

BARE = "a bare Python loop with a dict"
BARE_S = 1.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report. ``beside`` is the rate of the bare loop right before and after."""

    title: str
    records_per_s: float
    is_right: bool | None = None
    latency_ms: dict[str, float] | None = None
    beside: float | None = None


def titles() -> list[str]:
    """Everything that is going to be measured, in its order."""
    return [BARE, *(title for each in _workloads() for title in (each, BARE))]


def run_suite(
    place: str, seconds: float, parallelism: int, begin: Callable[[str], None]
) -> Iterator[Outcome]:
    """Measure one thing after the other; ``begin`` gets the title of each before it starts.

    The bare loop runs between any two, because a machine is not as fast at one time as at another.
    """

    def bare() -> float:
        begin(BARE)
        return bare_rate(parallelism, min(seconds, BARE_S))

    rates = [bare()]
    for title, make in _workloads().items():
        begin(title)
        found = measure(make(), place, seconds, parallelism=parallelism)
        rates.append(bare())
        beside = statistics.mean(rates[-2:])
        yield Outcome(title, found.records_per_s, found.is_right, found.latency_ms, beside)
    yield Outcome(BARE, statistics.median(rates))


def _workloads() -> dict[str, Callable[[], Workload]]:
    return {
        "process: a Python call per record": ByRow,
        "process_batches: a Python call per batch": ByBatch,
        "aggregate: built-in sum and count": Aggregated,
        f"latency at {RECORDS_PER_S:,} records/s": Paced,
    }
