"""The figures of a job as people see them."""

from __future__ import annotations

import pytest

from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.task_metrics import TaskMetricsByTask
from mainstay.runtime.watermarks import END_US


def shown(watermark_us: int | None) -> str:
    return repr(TaskMetricsByTask({("totals", 0): TaskMetrics(rows=3, watermark_us=watermark_us)}))


def test_event_time_that_has_ended_is_said_in_words() -> None:
    assert "the end" in shown(END_US)


@pytest.mark.parametrize(
    ("time_us", "expected"),
    [
        (END_US - 1, "9999-12-31 23:59:59"),
        (0, "1970-01-01 00:00:00"),
        (-1, "1969-12-31 23:59:59"),
        (1_700_000_000_999_999, "2023-11-14 22:13:20"),
    ],
)
def test_a_watermark_is_shown_to_the_second(time_us: int, expected: str) -> None:
    assert expected in shown(time_us)


def test_no_watermark_is_nothing() -> None:
    assert "UTC" not in shown(None)


def test_the_table_has_the_timers_of_a_task() -> None:
    metrics = TaskMetricsByTask({("f", 0): TaskMetrics(timers={"f": (1_200, 3), "g": (0, 1)})})
    assert "1,200, 4 fired" in repr(metrics)
