"""The report of the comparison: what is made of runs, and that one command makes all of it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.paper import figures, tables
from benchmarks.paper.grid import AMOUNTS, AXES, FULL, QUICK, TINY, in_turn
from benchmarks.paper.modes import MODES
from benchmarks.paper.running import Case, Run
from benchmarks.paper.tables import Runs

AMOUNT = replace(TINY, rounds=3)


def run_of(mode: str, case: Case, rows_per_s: float, number: int, *, is_right: bool = True) -> Run:
    full = {"rows_per_s": rows_per_s, "gap_ms": 5.0 + number}
    ages = {"pace": 10.0, "p50_ms": 1.0, "p99_ms": 20.0 * (number + 1), "p100_ms": 3.0}
    return Run(mode, case, is_right, full, {"gap_ms": 2.0, **ages}, 1.0, 0.01, number)


def runs_of(axis: str = "state") -> list[Run]:
    """Each round is slower than the one before, for all modes alike."""
    return [
        run_of(mode, case, speed / (number + 1), number)
        for case in AMOUNT.cases(axis)
        for mode, speed in (("none", 1000.0), ("pipelined", 900.0))
        for number in range(3)
    ]


def test_every_axis_departs_from_the_same_case_in_every_amount() -> None:
    for amount in AMOUNTS.values():
        assert all(amount.middle in amount.cases(axis) for axis in AXES)
        cases = amount.all_cases(list(AXES))
        assert len(cases) == len(set(cases))
        assert len(cases) == sum(len(amount.cases(axis)) - 1 for axis in AXES) + 1


def test_the_full_amount_is_what_the_paper_varies() -> None:
    assert {10_000, 100_000, 1_000_000} <= set(FULL.values["state"])
    assert FULL.values["parallelism"] == FULL.values["shuffles"] == (1, 2, 4)
    assert FULL.rounds >= 3
    assert QUICK.rounds == 1


def test_another_mode_is_first_in_every_round() -> None:
    assert list(in_turn(["a", "b"], 3)) == [(0, ["a", "b"]), (1, ["b", "a"]), (2, ["a", "b"])]


def test_a_share_is_one_of_the_same_round_and_cells_have_ranges() -> None:
    [rates, ages] = tables.tables(Runs(runs_of()), AMOUNT, ["state"])
    assert rates.cells("mode") == ["none", "pipelined"] * 2
    assert rates.cells("keys") == ["100", "100", "1,000", "1,000"]
    assert rates.rows[1][2:5] == ["450 (300 – 900)", "90% (90% – 90%)", "6.0 (5.0 – 7.0)"]
    assert ages.cells("p99 (ms)")[1] == "40 (20 – 60)"
    assert "Snapshot" not in rates.note
    assert rates.note.startswith("1 workers, one shuffle, a snapshot every 0.1 s")


def test_modes_that_were_not_measured_have_no_rows() -> None:
    [rates, _] = tables.tables(Runs(runs_of()[:3]), AMOUNT, ["state"])
    assert rates.cells("mode") == ["none"]


def test_a_wrong_result_and_a_busy_machine_are_told() -> None:
    [*others, last] = runs_of()
    text = tables.described(Runs([*others, replace(last, is_right=False)]), AMOUNT)
    assert "WRONG: 1 of 12 runs" in text
    assert "The machine was quiet." in text
    busy = [replace(run, others_cores=1.5) for run in others]
    text = tables.described(Runs(busy), AMOUNT)
    assert "The machine was busy" in text
    assert "WRONG" not in text


def test_there_is_a_picture_for_each_axis(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert set(figures.COLOURS) == set(MODES)
    drawn = figures.draw(Runs(runs_of()), AMOUNT, ["state"], tmp_path, "paper")
    assert drawn == ["paper-state.svg"]
    assert "<svg" in (tmp_path / "paper-state.svg").read_text()


def test_one_command_measures_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "paper.md"
    wanted = ["paper", "--size", "tiny", "--axis", "shuffles", "--output", str(report)]
    main([*wanted, "--mode", "pipelined"])
    record = report.with_suffix(".jsonl")
    lines = record.read_text().splitlines()
    assert [json.loads(line)["mode"] for line in lines] == ["none", "pipelined"] * 2
    text = report.read_text()
    assert "State and output of every run were those of the reference." in text
    assert "## By the number of shuffles: latency" in text
    paces = {(each["case"]["shuffles"], each["paced"]["pace"]) for each in map(json.loads, lines)}
    assert len(paces) == 2  # one for each case, the same for its modes

    record.write_text("\n".join(lines[:3]) + "\n")
    capsys.readouterr()
    main([*wanted, "--mode", "pipelined", "--resume"])
    assert capsys.readouterr().out.count("round 1") == 1
    assert len(record.read_text().splitlines()) == 4


def test_a_wrong_result_ends_the_command_with_an_error(tmp_path: Path) -> None:
    runs = [run_of("none", case, 1.0, 0, is_right=False) for case in TINY.cases("state")]
    lines = [json.dumps(asdict(run)) for run in runs]
    (tmp_path / "paper.jsonl").write_text("\n".join(lines) + "\n")
    given = ["paper", "--size", "tiny", "--draw-only", "--output", str(tmp_path / "paper.md")]
    with pytest.raises(SystemExit, match="2 runs had a wrong result"):
        main(given)
