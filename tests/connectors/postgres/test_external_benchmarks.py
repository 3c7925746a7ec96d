"""The benchmarks of state in PostgreSQL run in their smallest form; times are not judged."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("postgres")]
PROTOCOLS = ["logged", "versioned", "prepared"]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def rows(name: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[list[str]]:
    module = importlib.import_module(f"benchmarks.external.{name}")
    report = importlib.import_module("benchmarks.report")
    measure = getattr(module, settings.pop("measure", "measure"))
    for setting, value in settings.items():
        monkeypatch.setattr(module, setting, value)
    return [row for table in measure(report.TINY) for row in table.rows]


def test_hit_ratios_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows("hits", monkeypatch, RATIOS=(0, 99))
    assert [row[:2] for row in found] == [[name, r] for r in ("0 %", "99 %") for name in PROTOCOLS]


def test_growth_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows("growth", monkeypatch, LOOKS=2, SECONDS=500)
    assert [row[0] for row in found] == [name for name in PROTOCOLS for _ in range(3)]
    assert all(float(row[5]) > 0 for row in found)


def test_recovery_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows("recovery", monkeypatch, SIZES=(10_000,), KILLS={10_000: 1})
    assert [row[1] for row in found] == ["heap", "rocksdb", "logged"]


@pytest.mark.soak  # it waits for databases that follow behind, for as long as they take
def test_the_recovery_of_every_protocol_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"SIZES_BY_PROTOCOL": (10_000,), "KILLS": {10_000: 1}}
    found = rows("recovery", monkeypatch, measure="measure_protocols", **settings)
    assert [row[1] for row in found] == ["heap", *PROTOCOLS]


def test_a_report_keeps_the_sections_that_were_not_measured_again(tmp_path: Path) -> None:
    keep = importlib.import_module("benchmarks.external.__main__").keep
    table = importlib.import_module("benchmarks.report").Table
    for title, cell in (("one", "1"), ("two", "2"), ("one", "3")):
        keep(tmp_path / "external.md", table(title, ["a"], rows=[[cell]]))
    text = (tmp_path / "external.md").read_text()
    assert "| 3 |" in text
    assert "| 2 |" in text
    assert "| 1 |" not in text
