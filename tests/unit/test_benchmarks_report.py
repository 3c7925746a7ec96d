"""The report of a comparison: what it says of the machine, its file, and its pictures."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.harness import command, record
from benchmarks.harness.machine import Machine
from benchmarks.harness.measurement import Outcome
from benchmarks.harness.plot import pictures
from benchmarks.harness.record import Record
from benchmarks.harness.schedule import Run
from benchmarks.harness.summary import best_settings, summaries
from benchmarks.harness.svg import Bar, picture, scale_of, short
from benchmarks.harness.systems import OURS, Contender
from benchmarks.harness.tables import cost, document

# As version 1 wrote it; the committed results may still be of it.
VERSION_1 = """{
 "format": 1, "seconds": 5.0, "environments": {"here": "mainstay 0.1.0"},
 "runs": [{
  "workload": "W1", "system": "mainstay", "setting": "process-spark", "round": 2,
  "answer": {"system": "mainstay", "setting": "process-spark", "workload": "W1",
   "records": 4071579, "seconds": 5.0, "records_per_s": 814315.8, "latency_ms": null,
   "verified": true, "note": ""},
  "failure": "", "peak_bytes": 1340248064, "cpu_s": 39.49, "wall_s": 26.04
 }]
}"""


def run(
    system: str, setting: str, rate: float, number: int = 0, workload: str = "W1", others: float = 0
) -> Run:
    latency = {"p50": 2.0, "p99": 5.0, "p99.9": 9.0} if workload == "W3" else None
    answer = {"records": 10 * rate, "records_per_s": rate, "latency_ms": latency, "verified": True}
    outcome = Outcome(answer, "", 300 * 2**20, 30.0, 20.0, 18.0, others)
    return Run(Contender(workload, system, setting, "", ()), number, outcome)


def recorded(*runs: Run) -> Record:
    on = Machine(2, "A processor", 25.0, "Linux 6", "CPython 3.11")
    versions = {"here": "mainstay 0.1.0"}
    return Record(
        5.0, 1, versions, {"flink": "no java"}, on, "2026-01-01", "abc", 0.5, 1.5, list(runs)
    )


def test_a_record_is_the_same_after_its_file() -> None:
    before = recorded(run(OURS, "a", 1000.0), run("quix", "b", 10.0, 1, others=0.4))
    after = record.read(before.to_json())
    assert after == before
    assert document(after) == document(before)


def test_the_file_of_version_1_can_be_read() -> None:
    found = record.read(VERSION_1)
    assert found.repeats == 3
    assert found.machine is None
    text = document(found)
    assert "814,316" in text
    assert "Nobody looked how busy the machine was" in text


def test_a_file_of_a_later_version_is_refused() -> None:
    with pytest.raises(SystemExit, match="format 9, and"):
        record.read('{"format": 9}')


def test_the_committed_results_can_be_drawn(tmp_path: Path) -> None:
    command.main(["--redraw", str(command.RESULTS / "peers.json"), "--output", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {
        "peers.md",
        *(f"peers-{workload}.svg" for workload in ("W1", "W2", "W3", "W6")),
    }
    for path in tmp_path.iterdir():
        assert path.read_text() == (command.RESULTS / path.name).read_text(), path.name


def test_a_report_says_where_it_is_from_and_what_a_record_costs() -> None:
    text = document(recorded(run(OURS, "a", 1000.0)))
    assert "2 cores (A processor), 25 GB of memory, Linux 6, CPython 3.11" in text
    assert "Measured on 2026-01-01 at commit abc." in text
    assert "Load 0.50 before and 1.50 after. The machine was quiet" in text
    assert "- flink: no java" in text
    row = next(line for line in text.splitlines() if line.startswith("| mainstay"))
    # 18 s of CPU time for ten thousand records.
    assert "1,800" in row.split(" ")


def test_a_disturbed_run_is_marked_in_its_row_and_at_the_top() -> None:
    text = document(recorded(run(OURS, "a", 1000.0), run("quix", "b", 10.0, others=0.4)))
    assert "**The machine was busy**: in 1 of 2 runs" in text
    assert re.search(r"\| quix .* 40% ! \|", text)
    assert re.search(r"\| mainstay .* 0% \|", text)


def test_a_setting_without_durability_and_a_bound_are_shown_without_a_star() -> None:
    runs = [
        run(OURS, "a", 1000.0),
        run("quix", "changelog", 10.0),
        run("quix", "no-changelog", 20.0),
        run("polars", "threads", 9000.0),
    ]
    starred = {(one.system, one.setting) for one in best_settings(summaries(runs))}
    assert starred == {(OURS, "a"), ("quix", "changelog")}


def test_every_workload_has_a_picture_with_memory_and_cpu_beside_each_rate() -> None:
    runs = [
        run(OURS, "a", 1_234_567.0),
        run("quix", "b <&>", 2500.0),
        run(OURS, "a", 5000.0, workload="W3"),
    ]
    found = pictures(recorded(*runs))
    assert list(found) == ["W1", "W3"]
    words = [text.text for text in ET.fromstring(found["W1"]).findall("{*}text")]
    assert "1.23M/s · 315MB · 1.5 µs" in words
    assert "quix, b <&> *" in words
    assert "2 ms, p99 5 · 315MB · 360 µs" in ET.fromstring(found["W3"]).find(".//{*}desc").text  # type: ignore[operator, union-attr]


def test_a_picture_brings_the_colours_of_light_and_dark_pages() -> None:
    made = picture("Title", "records/s", "what it shows", [Bar("a", 10, 9, 11, "10/s", "ours")])
    assert "prefers-color-scheme: dark" in made
    root = ET.fromstring(made)
    assert root.find("{*}rect").get("class") == "page"  # type: ignore[union-attr]
    assert root.find("{*}desc").text == "what it shows"  # type: ignore[union-attr]


def test_bars_stay_within_the_picture_however_far_apart_they_are() -> None:
    bars = [Bar(str(n), v, v / 2, v * 2, "", "peer") for n, v in enumerate((0.3, 1, 1e9))]
    root = ET.fromstring(picture("x" * 90, "u", "d", bars))
    width = float(root.get("viewBox").split()[2])  # type: ignore[union-attr]
    for bar in root.findall("{*}rect"):
        if bar.get("class") == "peer":
            assert 0 < float(bar.get("width")) <= width - float(bar.get("x"))  # type: ignore[arg-type]
    assert scale_of(bars).at(2e9) <= width


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.5, "0.5"),
        (999, "999"),
        (999.9, "1k"),
        (71_472, "71.5k"),
        (1_126_884, "1.13M"),
        (5e9, "5G"),
    ],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert short(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0.0371, "0.037"), (3.14, "3.1"), (42.4, "42"), (1800, "1,800")],
)
def test_a_cost_has_as_many_digits_as_mean_something(value: float | None, said: str) -> None:
    assert cost(value) == said


def test_a_part_of_the_comparison_does_not_take_the_place_of_the_whole() -> None:
    def goes_to(*arguments: str) -> Path:
        options = command.parser().parse_args(list(arguments))
        return command.output_of(options, command.chosen(options))

    assert goes_to() == command.RESULTS
    assert goes_to("--only", "W1") == command.CACHE / "results"
    assert goes_to("--ours-only") == command.CACHE / "results"
    assert goes_to("--only", "W1", "--output", "x") == Path("x")


def test_what_is_done_is_kept_when_somebody_stops_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(OURS, "a", 1000.0)

    def stopped(*_: object, **__: object) -> object:
        yield done
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        command.measure_and_write([], {}, seconds=1, repeats=1, output=tmp_path)
    kept = json.loads((tmp_path / "peers.json").read_text())
    assert [one["system"] for one in kept["runs"]] == [OURS]
