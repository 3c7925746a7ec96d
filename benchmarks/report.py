"""Tables of figures, as text for a terminal and as Markdown for a file."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: a divisor of every amount, and how often each is repeated."""

    name: str
    divisor: int
    repeats: int

    def of(self, amount: int) -> int:
        return max(1, amount // self.divisor)


FULL = Size("full", 1, 5)
QUICK = Size("quick", 10, 3)
TINY = Size("tiny", 1000, 1)


@dataclass(slots=True)
class Table:
    """A titled table; ``note`` says what to look at."""

    title: str
    columns: Sequence[str]
    note: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.title}: {len(cells)} cells for {len(self.columns)} columns")
        self.rows.append([str(cell) for cell in cells])

    def cells(self, column: str) -> list[str]:
        """What stands in a column."""
        number = list(self.columns).index(column)
        return [row[number] for row in self.rows]

    def numbers(self, column: str) -> list[float]:
        return [float(cell.replace(",", "")) for cell in self.cells(column)]

    def to_markdown(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        parts = [f"## {self.title}", ""]
        if self.note:
            parts += [self.note, ""]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        for cells in (self.columns, rule, *self.rows):
            first, *others = zip(cells, widths, strict=True)
            aligned = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
            parts.append(f"| {' | '.join(aligned)} |")
        return "\n".join(parts)


def add_beside(
    table: Table, name: str, rows: int, ours: Sequence[float], theirs: Sequence[float]
) -> None:
    """A row of two rates and their ratio, from the seconds that the same rows took both ways."""
    rate, other = rows / median(ours), rows / median(theirs)
    table.add(name, count(rate), count(other), f"{rate / other:.2f}")


def machine() -> str:
    """What the figures were measured on, as far as it explains them."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()}), "
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"pyarrow {version('pyarrow')}, numpy {version('numpy')}, mainstay {version('mainstay')}."
    )


def document(tables: Sequence[Table], size: Size, of: str = "the core") -> str:
    """The whole report."""
    head = f"# Measurements of {of}\n\n{machine()} Size: {size.name}, {size.repeats} repeats."
    return "\n\n".join([head, *(table.to_markdown() for table in tables)]) + "\n"


def write_report(path: Path, title: str, note: str, tables: Sequence[Table]) -> None:
    """Keep the tables of one subject in a file of their own, and show them."""
    text = "\n\n".join(table.to_markdown() for table in tables)
    path.write_text(f"# {title}\n\n{note}\n\n{machine()}\n\n{text}\n", encoding="utf-8")
    print(text)


def count(number: float) -> str:
    return f"{number:,.0f}"


def millis(seconds: float) -> str:
    """Milliseconds with as many digits as mean something."""
    value = seconds * 1e3
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(np.asarray(values), percent))
