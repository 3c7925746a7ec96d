"""Figures of breadth beside those of the commit before its work began, which are kept in a file.

They were made by this benchmark as far as that code has the same parts: 88e1bf3, the parent of the
commit by which a worker looks only at channels that have something.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Table

FILE = Path(__file__).parent / "results" / "breadth-before.json"
NOTE = (
    "Before and after, at commit {commit} and now. The figures of then are of {date}, at a load of "
    "{load}. A dash: it took more than {most_s} s of the processor."
)


def beside(tables: Sequence[Table]) -> list[Table]:
    """Each table with a column of then before each of its own."""
    then = json.loads(FILE.read_text())
    return [_beside(table, then["tables"][table.title], NOTE.format(**then)) for table in tables]


def _beside(now: Table, then: dict[str, Any], note: str) -> Table:
    name, *columns = now.columns
    titles = [title for each in columns for title in (f"{each}, then", each)]
    both = Table(now.title, [name, *titles], f"{now.note} {note}")
    for cell, *figures in now.rows:
        before = then.get(cell) or ["—"] * len(figures)
        both.add(cell, *(each for pair in zip(before, figures, strict=True) for each in pair))
    return both
