"""Prebuilt columns for the libraries that group them: the same data and the same check for each.

A bound for an aggregation, not a competitor: columns are grouped a million rows at a time, nothing
is added to what was grouped before, nothing is shuffled and nothing is kept.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from benchmarks import workloads
from benchmarks.peers import answer

SETTINGS = {"W2": ["processes", "threads"], "W6": ["processes", "threads"]}
ROWS = 1_000_000
LINES = ROWS // workloads.WORDS_PER_LINE


class Grouping:
    """One library at one workload. ``threads`` is how many it may take for a round."""

    def __init__(self, workload: str, process: int, threads: int) -> None:
        self.workload, self.threads = workload, threads
        self.first = process * ROWS
        self.grouped: Any = None

    def columns(self) -> pa.Table:
        if self.workload == "W6":
            return pa.table({"line": workloads.lines(0, LINES)})
        return pa.Table.from_batches([workloads.orders(self.first, ROWS)])

    def group(self) -> Any:
        """Group all columns; what comes of it has the key first and its sum or count second."""
        raise NotImplementedError(f"{type(self).__name__} has to say how it groups")

    def pairs(self) -> dict[Any, int]:
        """The keys of what was grouped last, with their sums or counts."""
        raise NotImplementedError(f"{type(self).__name__} has to say what it found")

    def round(self) -> int:
        self.grouped = self.group()
        return ROWS

    def is_right(self, rounds: int) -> bool:
        if self.workload == "W6":
            return self.pairs() == workloads.word_counts(LINES)
        return self.pairs() == workloads.sums(ROWS, self.first)


def threads_of(asked: answer.Request) -> int:
    """Two processes have a thread each, and one process has both cores."""
    return workloads.PARALLELISM if asked.setting == "threads" else 1


def processes_of(asked: answer.Request) -> int:
    return 1 if asked.setting == "threads" else workloads.PARALLELISM


def note(asked: answer.Request) -> str:
    how = "one process with its own threads" if asked.setting == "threads" else "two processes"
    return f"a bound: {how}, prebuilt columns; no shuffle, no snapshot, no running total"
