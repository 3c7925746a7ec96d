"""What was found for each combination: kept in a file, and shown as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.matrix.interpreters import series_of

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

    @property
    def place(self) -> tuple[str, str]:
        return series_of(self.python), series_of(self.spark)


class Results:
    """A file of results; a new one takes the place of that of the same combination."""

    def __init__(self, file: Path) -> None:
        self._file = file
        found = json.loads(file.read_text()) if file.exists() else []
        self._results = {result.place: result for result in (Result(**each) for each in found)}

    def __iter__(self) -> Iterator[Result]:
        return iter(sorted(self._results.values(), key=lambda result: _order(result.place)))

    def add(self, result: Result) -> None:
        self._results[result.place] = result
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps([asdict(each) for each in self], indent=1) + "\n")


def table(results: list[Result]) -> str:
    """Markdown: a row for each Python, a column for each PySpark, and what did not pass below."""
    sparks = _releases((result.place[1], result.spark) for result in results)
    pythons = _releases((result.place[0], result.python) for result in results)
    cells = {result.place: _cell(result) for result in results}
    lines = [f"| Python | {' | '.join(f'PySpark {each}' for each in sparks.values())} |"]
    lines.append("|---" * (len(sparks) + 1) + "|")
    for python, release in pythons.items():
        row = (cells.get((python, spark), "not tried") for spark in sparks)
        lines.append(f"| {release} | {' | '.join(row)} |")
    failed = [result for result in results if result.outcome == FAILED]
    lines += [""] * bool(failed)
    lines += [f"- Python {each.python}, PySpark {each.spark}: {each.why}" for each in failed]
    return "\n".join(lines) + "\n"


def packages(results: list[Result]) -> str:
    """Markdown: the versions of other packages that were installed with each combination."""
    tried = [result for result in results if result.packages]
    names = list(dict.fromkeys(name for result in tried for name in result.packages))
    lines = [f"| Python | PySpark | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for result in tried:
        versions = " | ".join(result.packages.get(name, "") for name in names)
        lines.append(f"| {result.python} | {result.spark} | {versions} |")
    return "\n".join(lines) + "\n"


def _cell(result: Result) -> str:
    if result.outcome == MISSING:
        return f"{MISSING}: {result.why}"
    return f"{result.outcome}, {result.date}"


def _releases(pairs: Iterator[tuple[str, str]]) -> dict[str, str]:
    """The longest name of each version: a release says more than the version alone."""
    found: dict[str, str] = {}
    for version, release in sorted(pairs, key=lambda pair: (_numbers(pair[0]), len(pair[1]))):
        found[version] = release
    return found


def _order(place: tuple[str, str]) -> tuple[tuple[int, ...], ...]:
    return _numbers(place[0]), _numbers(place[1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
