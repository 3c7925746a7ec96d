"""Event time that stands still is told, with who holds it back and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.coordinator.standstill import PATIENCE_S, Standstill
from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.watermarks import END_US

TEN = 36_000_000_000
"""Ten o'clock of the first day."""


def job(*, second: bool = True) -> JobSpec:
    """Two sources, of which the second may have no watermark, and a keyed function."""
    env = ms.Environment(spark="embedded", parallelism=2)
    given = ms.connectors.Rows("n long, at timestamp", [])
    time = ms.Watermark("at")
    first = env.source(given, uid="first", watermark=time)
    other = env.source(given, uid="other", watermark=time if second else None)
    keyed = first.union(other).key_by("n").aggregate(c=ms.count(), uid="waits")
    keyed.sink(ms.connectors.Memory(), uid="out")
    spec = plan_of(env._builder.graph(128, "exactly_once"))
    waits = next(task for task in spec.tasks if task.id == "waits")
    operators = tuple(replace(each, needs_time=each.uid == "waits") for each in waits.operators)
    changed = replace(waits, operators=operators)
    tasks = tuple(changed if task is waits else task for task in spec.tasks)
    return replace(spec, tasks=tasks)


def figures(first: Any, other: Any, waits: int | None = TEN) -> dict[tuple[str, int], TaskMetrics]:
    found = {("waits", n): TaskMetrics(rows=1, watermark_us=waits) for n in (0, 1)}
    for uid, told in (("first", first), ("other", other)):
        for n in (0, 1):
            is_idle, time = (True, None) if told == "idle" else (False, told)
            found[(uid, n)] = TaskMetrics(watermark_us=time, is_idle=is_idle)
    return found


def told(spec: JobSpec, metrics: Any, ended: Any = frozenset()) -> list[str]:
    standstill = Standstill(spec)
    assert standstill.problems(metrics, ended, 100.0) == []
    assert standstill.problems(metrics, ended, 100.0 + PATIENCE_S - 1) == []
    return [str(each) for each in standstill.problems(metrics, ended, 100.0 + PATIENCE_S)]


def test_a_source_that_is_behind_is_named_with_the_remedy() -> None:
    (line,) = told(job(), figures(TEN + 5, TEN))
    assert line.startswith(
        "operator 'waits' has waited for event time, which stands at 1970-01-01 10:00:00, for 30 s:"
    )
    assert "source 'other', subtask 0 (and 1 more) has had no row of a later time and holds" in line
    assert 'idle="1min"' in line


def test_quiet_sources_are_told_apart_from_one_that_holds_others_back() -> None:
    (line,) = told(job(), figures(TEN, TEN))
    assert "comes with the next one" in line
    assert "holds the others back" not in line


def test_a_source_without_a_watermark_is_named() -> None:
    (line,) = told(job(second=False), figures(TEN, None, waits=None))
    assert "event time, which is not known, for 30 s" in line
    assert "source 'other' tells no event time" in line


def test_idle_and_ended_sources_are_not_blamed() -> None:
    (line,) = told(job(), figures("idle", TEN), frozenset({("other", 0), ("other", 1)}))
    assert "all sources are idle" in line


def test_time_that_moves_is_no_problem() -> None:
    standstill = Standstill(job())
    for n in range(5):
        metrics = figures(TEN + n, TEN + n, waits=TEN + n)
        assert standstill.problems(metrics, frozenset(), 100.0 + n * PATIENCE_S * 0.9) == []


@pytest.mark.parametrize("why", ["at the end", "no rows", "not all report"])
def test_there_is_nothing_to_tell(why: str) -> None:
    metrics = figures(TEN, TEN, waits=END_US if why == "at the end" else TEN)
    if why == "no rows":
        metrics |= {("waits", n): TaskMetrics(watermark_us=TEN) for n in (0, 1)}
    if why == "not all report":
        del metrics["waits", 1]
    assert told(job(), metrics) == []
