"""What ``mainstay bench`` runs, one after the other, and what each came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mainstay.bench.bare import bare_rate
from mainstay.bench.measuring import measure
from mainstay.bench.workloads import RECORDS_PER_S, Aggregated, ByBatch, ByRow, Paced, Workload

BARE = "a bare Python loop with a dict"
BARE_S = 3.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report."""

    title: str
    records_per_s: float
    is_right: bool | None = None
    latency_ms: dict[str, float] | None = None


def titles() -> list[str]:
    """Everything that is going to be measured, in its order."""
    return [BARE, *_workloads()]


def run_suite(
    place: str, seconds: float, parallelism: int, begin: Callable[[str], None]
) -> Iterator[Outcome]:
    """Measure one thing after the other; ``begin`` is told the title of each before it starts."""
    begin(BARE)
    yield Outcome(BARE, bare_rate(parallelism, min(seconds, BARE_S)))
    for title, make in _workloads().items():
        begin(title)
        found = measure(make(), place, seconds, parallelism=parallelism)
        yield Outcome(title, found.records_per_s, found.is_right, found.latency_ms)


def _workloads() -> dict[str, Callable[[], Workload]]:
    return {
        "process: a Python call per record": ByRow,
        "process_batches: a Python call per batch": ByBatch,
        "aggregate: built-in sum and count": Aggregated,
        f"latency at {RECORDS_PER_S:,} records/s": Paced,
    }
