"""The page on tuning has every setting, and its figures are those that were measured."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mainstay as ms
from tests.pages import ROOT
from tests.unit.test_numbers_on_pages import rows_in

PAGE = (ROOT / "docs" / "tuning.md").read_text()
DESCRIBED: list[Callable[..., Any]] = [ms.Snapshots, ms.Restart, ms.RocksDB, ms.Postgres]
WHERE_AND_NOT_HOW = {"dir"}


def section(name: str) -> str:
    return re.split(rf"^## `{name}`$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]


@pytest.mark.parametrize("setting", DESCRIBED, ids=lambda each: each.__name__)
def test_every_setting_says_what_it_trades(setting: Callable[..., Any]) -> None:
    named = set(re.findall(r"`(\w+)`", section(setting.__name__)))
    assert set(inspect.signature(setting).parameters) - WHERE_AND_NOT_HOW <= named


def measured() -> Iterator[tuple[str, list[list[str]]]]:
    """The tables of figures on the page, with the report that each names as its source."""
    for part in re.findall(r"((?:^\|.*\n)+)\n(?:[^|\n].*\n)*?.*Source: \[(\S+)\]", PAGE, re.M):
        table, report = part
        yield report, rows_in(table)


def test_figures_have_a_source() -> None:
    assert {report for report, _ in measured()} >= {"core.md", "modes.md", "external.md"}
    assert len(list(measured())) == PAGE.count("Source: [") == 5


@pytest.mark.parametrize(("report", "rows"), list(measured()))
def test_a_figure_is_what_was_measured(report: str, rows: list[list[str]]) -> None:
    written = rows_in((ROOT / "benchmarks" / "results" / report).read_text())
    assert rows
    assert [row for row in rows if row not in written] == []
