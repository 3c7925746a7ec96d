"""Counts that only grow, though the lists that they are counted from forget."""

from __future__ import annotations

from typing import Any

from mainstay.serve.documents import EpochDetail, FailureDocument, SubtaskEpoch
from mainstay.serve.tally import Histogram, Tally


def epoch(number: int, status: str = "complete", duration_s: float | None = 0.2) -> EpochDetail:
    return EpochDetail(
        epoch=number,
        attempt=1,
        status=status,
        begun_at=1.0,
        duration_s=duration_s,
        size_bytes=number,
        in_flight_rows=0,
        is_unaligned=False,
        cause="",
        is_kept=False,
        subtasks=[
            SubtaskEpoch(
                task="sums",
                subtask=subtask,
                start_delay_s=0.5 * subtask,
                alignment_s=0.01 * subtask,
                sync_s=0.0,
                async_s=0.5 * subtask,
                size_bytes=1,
                in_flight_rows=0,
            )
            for subtask in (0, 1)
        ],
    )


def failure(attempt: int, at: float, outcome: str = "restarted") -> FailureDocument:
    return FailureDocument(
        attempt=attempt,
        at=at,
        where="",
        cause="",
        outcome=outcome,
        done="",
        operator="",
        subtask=None,
        worker=None,
        traceback="",
    )


class Lists:
    """A view of which only what is counted is asked."""

    def __init__(self) -> None:
        self.all: list[EpochDetail] = []
        self.failed: list[FailureDocument] = []

    def epochs(self, limit: int, before: Any = None) -> Any:
        return self.all

    def epoch(self, number: int) -> EpochDetail:
        return next(each for each in self.all if each.epoch == number)

    def failures(self) -> Any:
        return self.failed


def test_an_epoch_is_counted_once_when_it_has_ended() -> None:
    lists, tally = Lists(), Tally()
    lists.all = [epoch(1), epoch(2, "failed"), epoch(3, "pending")]
    tally.update(lists)  # type: ignore[arg-type]
    tally.update(lists)  # type: ignore[arg-type]
    assert tally.epochs == {"complete": 1, "failed": 1}
    lists.all = [epoch(3)]  # the others are forgotten by now
    tally.update(lists)  # type: ignore[arg-type]
    assert tally.epochs == {"complete": 2, "failed": 1}
    assert tally.last_bytes == 3
    assert sum(tally.durations.counts) == 2


def test_phases_are_those_of_the_slowest_subtask() -> None:
    lists, tally = Lists(), Tally()
    lists.all = [epoch(1)]
    tally.update(lists)  # type: ignore[arg-type]
    assert {phase: found.sum for phase, found in tally.phases.items()} == {
        "start_delay": 0.5,
        "alignment": 0.01,
        "sync": 0.0,
        "async": 0.5,
    }


def test_an_epoch_without_figures_has_no_duration() -> None:
    lists, tally = Lists(), Tally()
    lists.all = [epoch(1, duration_s=None)]
    tally.update(lists)  # type: ignore[arg-type]
    assert tally.epochs == {"complete": 1}
    assert sum(tally.durations.counts) == 0


def test_failures_are_counted_beyond_those_that_are_kept() -> None:
    lists, tally = Lists(), Tally()
    lists.failed = [failure(1, 10.0), failure(2, 20.0)]
    tally.update(lists)  # type: ignore[arg-type]
    lists.failed = [failure(2, 20.0), failure(3, 30.0, "given up")]
    tally.update(lists)  # type: ignore[arg-type]
    assert tally.failures == {"restarted": 2, "given up": 1}


def test_a_histogram_counts_up_to_each_bound() -> None:
    found = Histogram()
    for value in (0.01, 0.02, 700.0):
        found.observe(value)
    buckets = dict(found.buckets())
    assert (buckets["0.01"], buckets["0.025"], buckets["600.0"], buckets["+Inf"]) == (1, 2, 2, 3)
