"""Rows at either end of the times that Python knows: none is lost, and bounds can be shown."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.testing import rows, run, snapshot
from tests.windows.kit import CLICKS, clicks, windowed

pytestmark = pytest.mark.usefixtures("backend")

FIRST = datetime.min.replace(tzinfo=timezone.utc)
LAST = datetime.max.replace(tzinfo=timezone.utc)
LAST_DAY = datetime(9999, 12, 31, tzinfo=timezone.utc)
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at_the_end(window: Any, times: list[datetime], **how: Any) -> tuple[list[Any], list[Any]]:
    """The bounds and counts of windows of rows at some times, and what is late."""
    given = [each for time in times for each in (("a", time, 1), snapshot())]
    result = run(windowed(window, **how), {"clicks": given}, parallelism=1)
    return [row[1:4] for row in result.output("out")], result.output("late")


@pytest.mark.parametrize(
    "window",
    [
        ms.tumbling("1 day"),
        ms.sliding("10s", every="5s"),
        ms.cumulating("1 day", every="12h"),
        ms.session("5min"),
    ],
)
def test_a_row_whose_slice_ends_after_the_last_time_is_late(window: Any) -> None:
    found, late = at_the_end(window, [NEW_YEAR, LAST])
    assert {row[2] for row in found} == {1}
    assert max(row[1] for row in found).year == 2026
    assert late == [("a", LAST, 1)]


def test_rows_whose_slices_end_after_the_last_time_are_counted_where_nobody_reads_them(
    tmp_path: Path,
) -> None:
    out = Memory()
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots(str(tmp_path)))
    given = Rows(CLICKS, [("a", LAST, 1), ("a", LAST_DAY, 2)])
    source = env.source(given, uid="clicks", watermark=ms.Watermark("at"))
    keyed = source.key_by("user").window(ms.tumbling("1 day"))
    keyed.aggregate(n=ms.count(), uid="windows").sink(out, uid="out")
    job = env.start("counted")
    assert job.wait(30) == "finished"
    assert not out.rows()
    assert job.metrics()["windows", 0].late == {"windows": 2}


def test_windows_that_end_after_the_last_time_are_emitted_at_the_end() -> None:
    last = LAST.replace(second=54)
    found, late = at_the_end(ms.sliding("10s", every="5s"), [last])
    whole = LAST.replace(microsecond=0)
    expected = [(45, whole.replace(second=55)), (50, LAST)]
    assert found == [(whole.replace(second=start), end, 1) for start, end in expected]
    assert not late


def test_a_lateness_that_reaches_beyond_the_last_time_holds_no_window_back() -> None:
    found, _ = at_the_end(ms.tumbling("1 day"), [NEW_YEAR], lateness="4000000 days")
    assert found == [(NEW_YEAR, NEW_YEAR.replace(day=2), 1)]


def test_windows_that_begin_before_the_first_time_begin_with_it() -> None:
    found, _ = at_the_end(ms.sliding("10s", every="5s"), [FIRST])
    assert found == [(FIRST, FIRST.replace(second=5), 1), (FIRST, FIRST.replace(second=10), 1)]


def test_a_row_at_the_last_time_does_not_end_event_time() -> None:
    """Another split still has rows: they are in time."""
    given = rows(CLICKS, [("a", LAST, 1), ("a", NEW_YEAR, 2)], splits=2)
    result = run(windowed(ms.tumbling("1 day")), {"clicks": given}, parallelism=1)
    assert [row[1] for row in result.output("out")] == [NEW_YEAR]
    assert result.output("late") == [("a", LAST, 1)]


def joined(**how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        other = env.source(
            Rows("id string, seen timestamp", []), uid="other", watermark=ms.Watermark("seen")
        )
        found = clicks(env).key_by("user").join(other.key_by("id"), uid="joined", **how)
        found.sink(Memory(), uid="out")

    given = [("clicks", ("a", LAST, 1)), ("other", ("a", LAST)), ("clicks", ("b", LAST, 2))]
    result = run(build, given, parallelism=1)
    return [(row[0], row[1], row[3]) for row in sorted(result.output("out"), key=repr)]


@pytest.mark.parametrize(
    "how", [{"window": ms.tumbling("1 day")}, {"as_of": "left"}], ids=["window", "as of"]
)
def test_rows_of_the_last_time_are_joined(how: dict[str, Any]) -> None:
    assert joined(how="left", **how) == [("a", LAST, LAST), ("b", LAST, None)]
