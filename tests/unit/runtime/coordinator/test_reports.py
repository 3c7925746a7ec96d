"""What the workers of an attempt have said lately, so that there are rates."""

from __future__ import annotations

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.coordinator.reports import LATELY_S, Reports
from mainstay.runtime.messages import Attempt, Metrics, TaskMetrics


@pytest.fixture
def reports() -> Reports:
    env = ms.Environment(spark="embedded", parallelism=1)
    env.source(Rows("n long", [(1,)]), uid="in").sink(Memory(), uid="out")
    return Reports(env.plan())


def report(reports: Reports, lasted_s: float) -> None:
    figures = TaskMetrics(lasted_s=lasted_s, rows=int(lasted_s))
    reports.take(Metrics(Attempt(1), 0, {"in": figures}), now=lasted_s)


def test_before_two_reports_there_is_nothing_earlier_than_now(reports: Reports) -> None:
    assert reports.earlier() == {}
    report(reports, 0.5)
    assert reports.earlier()["in", 0] is reports.metrics["in", 0]


def test_what_is_remembered_reaches_back_some_seconds_and_no_further(reports: Reports) -> None:
    for number in range(100):
        report(reports, 0.5 * number)
        span_s = reports.metrics["in", 0].lasted_s - reports.earlier()["in", 0].lasted_s
        assert span_s == min(0.5 * number, LATELY_S)


def test_after_a_silence_the_rate_is_that_of_the_silence(reports: Reports) -> None:
    for lasted_s in (0.5, 1.0, 60.0):
        report(reports, lasted_s)
    assert reports.earlier()["in", 0].lasted_s == 1.0
