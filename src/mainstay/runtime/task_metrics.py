"""What ``job.metrics()`` returns: a dictionary that a terminal and a notebook show as a table."""

from __future__ import annotations

from collections.abc import Mapping

from mainstay.runtime.messages import TaskMetrics
from mainstay.runtime.record_list import aligned, html_table, lines_of, shown_time
from mainstay.runtime.watermarks import END_US


class TaskMetricsByTask(dict[tuple[str, int], TaskMetrics]):
    """The figures of each subtask, named by its task and number.

    ``none`` is what is shown where there are none.
    """

    def __init__(
        self, metrics: Mapping[tuple[str, int], TaskMetrics], *, none: str = "no figures yet"
    ) -> None:
        super().__init__(metrics)
        self._none = none

    def __reduce__(self) -> tuple[type[dict[tuple[str, int], TaskMetrics]], tuple[object]]:
        """Sent elsewhere it is a dictionary like any other."""
        return dict, (dict(self),)

    def __repr__(self) -> str:
        lines = self._lines()
        return "\n".join(aligned(lines)) if lines else self._none

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_table(self._lines() or [[self._none]])

    def _lines(self) -> list[list[str]]:
        return lines_of([_cells(task, subtask, self[task, subtask]) for task, subtask in self])


def _shown_watermark(time_us: int | None) -> str:
    if time_us is not None and time_us >= END_US:
        return "the end"
    # In whole seconds: as a float the last microseconds of a year may be those of the next.
    return shown_time(None if time_us is None else time_us // 1_000_000)


def _shown_sides(each: TaskMetrics) -> str:
    counted = [pair for sides in each.sides.values() for pair in sides.items()]
    return ", ".join(f"{name} {rows:,}" for name, rows in counted if rows)


def _shown_timers(each: TaskMetrics) -> str:
    held = sum(held for held, _ in each.timers.values())
    fired = sum(fired for _, fired in each.timers.values())
    return f"{held:,}, {fired:,} fired" if held or fired else ""


def _cells(task: str, subtask: int, each: TaskMetrics) -> dict[str, str]:
    return {
        "task": task,
        "subtask": str(subtask),
        "rows": f"{each.rows:,}",
        "waiting": f"{each.waiting_rows:,}" if each.waiting_rows else "",
        "in loops": f"{each.queued_rows:,}" if each.queued_rows else "",
        "skipped": f"{each.skipped:,}" if each.skipped else "",
        "side outputs": _shown_sides(each),
        "timers": _shown_timers(each),
        "late": f"{sum(each.late.values()):,}" if each.late else "",
        "a row takes": f"{each.row_s * 1e6:,.1f} µs" if each.row_s else "",
        "at work": f"{each.load:.0%}" if each.load else "",
        "held back": "yes" if each.is_held_back else "",
        "watermark (UTC)": _shown_watermark(each.watermark_us),
    }
