"""Tasks of ours on a session, of either kind: a function in so many tasks of one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Main = Callable[[Iterator[Any]], Iterator[Any]]
"""What a task runs: given its batches, it yields others."""


def run_tasks(session: Any, main: Main, tasks: int, columns: str) -> list[Any]:
    """The rows that the tasks yield."""
    rows = session.range(0, tasks, 1, tasks).mapInArrow(main, columns)
    return list(rows.collect())


def run_together(session: Any, main: Main, tasks: int) -> None:
    """Tasks that start at the same time and yield nothing: the failure of one ends all."""
    rows = session.range(0, tasks, 1, tasks)
    rows.mapInArrow(main, "nothing int", barrier=True).collect()
