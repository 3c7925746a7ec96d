"""The command of the Nexmark benchmark: what it runs, and what its page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.harness.environments import Missing, Ready
from benchmarks.harness.measurement import Outcome
from benchmarks.nexmark.command import Inputs, chosen, commands, flink
from benchmarks.nexmark.summary import FLINK, OURS, Measured, report


def measured(query: str, system: str, number: int, seconds: float, **answer: Any) -> Measured:
    took = {"seconds": seconds, "start_s": 0.5, "cpu_s": 2 * seconds, "start_cpu_s": 1.0}
    given = {**took, "records_per_s": 1000 / seconds, **answer}
    return Measured(query, system, number, Outcome(given, "", 0, 2 * seconds, seconds))


def lines_of(page: str) -> dict[str, list[str]]:
    rows = [line.strip("| \n").split("|") for line in page.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}


def test_our_queries_are_run_and_their_rows_counted(tmp_path: Path) -> None:
    page = tmp_path / "nexmark.md"
    asked = "nexmark --events 2000 --queries q2,q13 --rounds 1 --ours-only --output"
    main([*asked.split(), str(page)])
    found = lines_of(page.read_text(encoding="utf-8"))
    assert found["q2"][-1] == found["q13"][-1] == "yes"
    assert "Flink is missing: left out" in page.read_text(encoding="utf-8")


def test_ratios_are_those_of_the_middle_round() -> None:
    rounds = [(2.0, 4.0), (2.5, 10.5), (2.0, 60.0)]
    found = [
        measured("q0", system, number, seconds)
        for number, both in enumerate(rounds)
        for system, seconds in zip((OURS, FLINK), both, strict=True)
    ]
    page = report(found, {"q0": None}, Ready("python", "flink 1"), events=1000, rounds=3)
    ours, running, *_, ratio, net, cpu, _ = lines_of(page)["q0"]
    assert (ours, running) == ("500", "667")
    assert (ratio, net, cpu) == ("4.20", "5.00", "5.00")


def test_a_run_that_is_mostly_its_start_has_no_net_ratio() -> None:
    found = [measured("q0", OURS, 0, 0.8), measured("q0", FLINK, 0, 3.2)]
    page = report(found, {}, Ready("python", "flink 1"), events=1000, rounds=1)
    assert lines_of(page)["q0"][-4:-1] == ["4.00", "–", "9.00"]


def test_too_many_rows_and_failures_are_told() -> None:
    failed = Measured("q0", FLINK, 0, Outcome(None, "exit code 1: no jar", 0, 1.0, 1.0))
    found = [measured("q0", OURS, 0, 1.0, rows=7), failed]
    page = report(found, {"q0": 5}, Missing("gone"), events=1000, rounds=1)
    assert lines_of(page)["q0"][-1] == "no: {7}, not 5"
    assert "- q0, flink, round 1: exit code 1: no jar" in page


def test_a_query_without_a_program_is_refused() -> None:
    with pytest.raises(SystemExit, match="no program for q99"):
        chosen("q0,q99")


def test_without_its_jars_flink_is_missing(tmp_path: Path) -> None:
    assert isinstance(flink(tmp_path, may_install=False), Missing)


def test_both_read_the_same_input(tmp_path: Path) -> None:
    given = Inputs(tmp_path / "events", tmp_path / "few", 1000)
    ours, theirs = dict(commands("q1", given, Ready("python", "flink 1"), tmp_path)).values()
    asked = ["q1", "--input", str(given.directory), "--few", str(given.few), "--events", "1000"]
    assert ours[3:] == asked
    assert theirs[3 : 3 + len(asked)] == asked
