"""What was found for each combination: kept in a file, and shown as a table.

The file is ``results.json`` here, beside the code: machines come and go, what was seen on them
stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.matrix.interpreters import PYTHONS, series_of

FILE = Path(__file__).with_name("results.json")
PASSED = "passed"
FAILED = "failed"
MISSING = "not to be had"


@dataclass(frozen=True, slots=True)
class Result:
    """How a Python, named by release where there is one, got on with a PySpark."""

    python: str
    spark: str
    outcome: str
    date: str
    why: str = ""
    packages: dict[str, str] = field(default_factory=dict)
    are_oldest: bool = False
    """Whether the packages were the oldest that pyproject.toml allows, not the newest."""

    @property
    def row(self) -> tuple[str, bool]:
        return series_of(self.python), self.are_oldest

    @property
    def column(self) -> str:
        return series_of(self.spark)


class Results:
    """A file of results; a new one takes the place of that of the same combination.

    But what this machine cannot have, another one had: that it is missing here is no news then.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __iter__(self) -> Iterator[Result]:
        found = json.loads(self._file.read_text()) if self._file.exists() else []
        return iter(sorted((Result(**each) for each in found), key=_order))

    def add(self, result: Result) -> None:
        kept = {_place(each): each for each in self}
        if result.outcome == MISSING and _place(result) in kept:
            return
        kept[_place(result)] = result
        text = json.dumps([asdict(each) for each in sorted(kept.values(), key=_order)], indent=1)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(text + "\n")


def table(results: list[Result]) -> str:
    """Markdown: a row for each Python, a column for each PySpark that was tried with one, and below
    what did not pass."""
    columns = {result.column: result.spark for result in sorted(results, key=_order)}
    columns = dict(sorted(columns.items(), key=lambda item: _numbers(item[0])))
    rows = {(version, False): version for version in PYTHONS}
    rows |= {result.row: _named(result, results) for result in sorted(results, key=_order)}
    cells = {(result.row, result.column): _cell(result) for result in results}
    lines = [f"| Python | {' | '.join(f'PySpark {each}' for each in columns.values())} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for row, name in rows.items():
        found = (cells.get((row, column), "not tried") for column in columns)
        lines.append(f"| {name} | {' | '.join(found)} |")
    failed = [result for result in results if result.outcome == FAILED]
    lines += [""] * bool(failed)
    lines += [f"- Python {_marked(each)}, PySpark {each.spark}: {each.why}" for each in failed]
    return "\n".join(lines) + "\n"


def packages(results: list[Result]) -> str:
    """Markdown: the versions of other packages that were installed with each combination."""
    tried = [result for result in results if result.packages]
    names = list(dict.fromkeys(name for result in tried for name in result.packages))
    lines = [f"| Python | PySpark | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for result in tried:
        versions = " | ".join(result.packages.get(name, "") for name in names)
        lines.append(f"| {_marked(result)} | {result.spark} | {versions} |")
    return "\n".join(lines) + "\n"


def _cell(result: Result) -> str:
    if result.outcome == MISSING:
        return f"{MISSING}: {result.why}"
    return f"{result.outcome}, {result.date}"


def _named(result: Result, results: list[Result]) -> str:
    """The name of a row: the release, which only those know that were tried."""
    named = max((each for each in results if each.row == result.row), key=lambda it: len(it.python))
    return _marked(named)


def _marked(result: Result) -> str:
    return f"{result.python}, oldest packages" if result.are_oldest else result.python


def _place(result: Result) -> tuple[str, bool, str]:
    return (*result.row, result.column)


def _order(result: Result) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
    version, are_oldest = result.row
    return are_oldest, _numbers(version), _numbers(result.column)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
