"""What is compared between two commits: a few figures of every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.harness.measurement import Outcome


@dataclass(frozen=True, slots=True)
class Figure:
    """``of`` gives None where a run does not have it."""

    name: str
    is_better_high: bool
    of: Callable[[Outcome], float | None]


def _rate(outcome: Outcome) -> float | None:
    """At a fixed pace, which is where latencies are measured, a rate says nothing."""
    answer = outcome.answer or {}
    return None if answer.get("latency_ms") else answer.get("records_per_s") or None


def _cpu_us(outcome: Outcome) -> float | None:
    """A commit from before windows had a beginning is charged for its start as well."""
    answer = outcome.answer or {}
    if not answer.get("records"):
        return None
    seconds = outcome.cpu_s if outcome.window_cpu_s is None else outcome.window_cpu_s
    return seconds / answer["records"] * 1e6 or None


def _megabytes(outcome: Outcome) -> float | None:
    return outcome.peak_bytes / 2**20 or None


def _latency(name: str) -> Callable[[Outcome], float | None]:
    def of(outcome: Outcome) -> float | None:
        latencies = (outcome.answer or {}).get("latency_ms") or {}
        return latencies.get(name) or None

    return of


FIGURES = (
    Figure("records/s", True, _rate),
    Figure("CPU µs a record", False, _cpu_us),
    Figure("peak MB", False, _megabytes),
    Figure("p50 ms", False, _latency("p50")),
    Figure("p99 ms", False, _latency("p99")),
)
