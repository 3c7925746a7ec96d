"""The harness end to end, over systems that answer, fail, hang or are not there."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import workloads
from benchmarks.harness import command
from benchmarks.harness.environments import Missing, Ready, prepare
from benchmarks.harness.measurement import Outcome, measure
from benchmarks.harness.schedule import Run, rounds
from benchmarks.harness.summary import best_settings, summaries
from benchmarks.harness.systems import (
    ENVIRONMENTS,
    OURS,
    WORKLOADS,
    Contender,
    Environment,
    contenders,
)

# Answers as the contract says; --setting is the rate, and a name that is no number misbehaves.
FAKE = """
import json, os, subprocess, sys, time
workload, _, setting, _, seconds = sys.argv[1:]
if setting == "fails":
    sys.exit("ValueError: the state is too large")
if setting == "babbles":
    print("no answer at all"); sys.exit()
if setting == "hangs":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(os.environ["CHILD_FILE"], "w").write(str(child.pid))
    time.sleep(600)
print("warming up")
table = {"title": "Sizes", "columns": ["keys", "ms"], "rows": [["10", "3.5"]], "note": "Short."}
latency = {"p50": 2.0, "p99": 5.0, "p99.9": 9.0} if workload == "W3" else None
print(json.dumps({
    "system": "fake", "setting": setting, "workload": workload, "records": 10, "seconds": 1.0,
    "records_per_s": float(setting), "latency_ms": latency, "verified": True, "note": "made up",
    **({"table": table} if workload == "W4" else {}),
}))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "fake.py"
    path.write_text(FAKE, encoding="utf-8")
    return path


def contender(script: Path, system: str, setting: str, workload: str = "W1") -> Contender:
    return Contender(workload, system, setting, "here", (str(script),))


def outcome(
    rate: float | None, p50: float | None = None, verified: bool | None = True, note: str = ""
) -> Outcome:
    if rate is None:
        return Outcome(None, "it broke", 0, 0.0, 0.0)
    latency = None if p50 is None else {"p50": p50, "p99": 2 * p50, "p99.9": 3 * p50}
    answer: dict[str, Any] = {"records_per_s": rate, "latency_ms": latency}
    answer |= {"verified": verified, "note": note}
    return Outcome(answer, "", 3 * 2**20, 1.5, 2.0)


def test_a_report_has_medians_ratios_failures_and_the_missing(script: Path, tmp_path: Path) -> None:
    who = [
        contender(script, OURS, "1000"),
        contender(script, "bytewax", "250"),
        contender(script, "bytewax", "100"),
        contender(script, "flink", "fails"),
        contender(script, OURS, "5000", "W3"),
        contender(script, OURS, "0", "W4"),
        Contender("W1", "pathway", "any", "absent", ("-m", "nowhere")),
    ]
    command.measure_and_write(
        who,
        {"here": Ready(sys.executable, "fake 1.0"), "absent": Missing("nobody sells it")},
        seconds=1,
        repeats=2,
        output=tmp_path / "results",
        timeout_s=60,
    )
    text = (tmp_path / "results" / "peers.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    rows = {(row[0], row[1]): row for row in cells if len(row) > 1}
    assert rows[OURS, "1000 *"][2:5] == ["1,000", "1,000–1,000", "1.00"]
    assert rows["bytewax", "250 *"][2:5] == ["250", "250–250", "4.00"]
    assert rows["bytewax", "100"][4] == "10"
    assert rows["flink", "fails"][2] == "failed"
    assert rows["flink", "fails"][-1].endswith("ValueError: the state is too large")
    assert rows[OURS, "5000 *"][4:7] == ["2.0", "5.0", "9.0"]
    assert "## W4: Sizes\n\nShort." in text
    assert rows["10", "3.5"] == ["10", "3.5"]
    assert "- pathway: nobody sells it" in text
    raw = json.loads((tmp_path / "results" / "peers.json").read_text(encoding="utf-8"))
    assert [run["round"] for run in raw["runs"]] == [0] * 6 + [1] * 5


def test_a_peer_that_hangs_is_ended_with_all_its_processes_and_named(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = tmp_path / "child"
    monkeypatch.setenv("CHILD_FILE", str(child))
    command.measure_and_write(
        [contender(script, "spark", "hangs")],
        {"here": Ready(sys.executable, "fake 1.0")},
        seconds=1,
        repeats=1,
        output=tmp_path,
        timeout_s=2,
    )
    text = (tmp_path / "peers.md").read_text(encoding="utf-8")
    assert "| failed: no answer within 2 s |" in text
    assert not is_alive(int(child.read_text(encoding="utf-8")))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_memory_and_time_of_the_whole_process_tree_count(tmp_path: Path) -> None:
    # The child holds the memory and burns the time; its parent only waits for it.
    burn = (
        "import time; held = b'x' * 80_000_000; end = time.process_time() + 0.6\n"
        "while time.process_time() < end: pass"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    found = measure([sys.executable, "-c", parent], 60, tmp_path)
    assert found.peak_bytes > 80_000_000
    assert found.cpu_s > 0.3


def test_what_is_not_an_answer_is_a_failure_that_quotes_it(script: Path, tmp_path: Path) -> None:
    babbling = contender(script, "x", "babbles").command(sys.executable, 1)
    found = measure(babbling, 60, tmp_path)
    assert found.answer is None
    assert "no answer at all" in found.failure


def test_the_first_run_of_each_comes_before_the_second_of_any(script: Path) -> None:
    one, other = contender(script, OURS, "1"), contender(script, "x", "2")
    assert list(rounds([one, other], 2)) == [(0, one), (0, other), (1, one), (1, other)]


def test_a_ratio_is_taken_within_rounds_so_that_a_slow_round_cancels_out(script: Path) -> None:
    ours, theirs = contender(script, OURS, "a"), contender(script, "x", "b")
    rates = [(1000, 100), (10, 1), (800, 100)]
    runs = [
        Run(who, number, outcome(rate))
        for number, pair in enumerate(rates)
        for who, rate in zip((ours, theirs), pair, strict=True)
    ]
    summary = summaries(runs)[1]
    assert summary.ratio == pytest.approx(10)
    assert summary.rate == statistics.median([100, 1, 100])
    assert (summary.slowest, summary.fastest) == (1, 100)


def test_a_failed_run_is_left_out_of_medians_and_named(script: Path) -> None:
    ours = contender(script, OURS, "a")
    runs = [Run(ours, 0, outcome(10)), Run(ours, 1, outcome(None)), Run(ours, 2, outcome(30))]
    (summary,) = summaries(runs)
    assert (summary.rate, summary.answers, summary.runs) == (20, 2, 3)
    assert summary.notes == "failed: it broke"


def test_what_runs_say_of_themselves_is_said_once_with_the_figures_of_each(script: Path) -> None:
    ours = contender(script, OURS, "a")
    notes = ["warmed up; since due: p50 1.7", "warmed up; since due: p50 2.0"]
    runs = [Run(ours, n, outcome(10, note=note)) for n, note in enumerate(notes)]
    assert summaries(runs)[0].notes == "warmed up; since due: p50 1.7 / p50 2.0"


def test_one_wrong_result_makes_the_row_wrong(script: Path) -> None:
    ours = contender(script, OURS, "a")
    runs = [Run(ours, 0, outcome(10)), Run(ours, 1, outcome(10, verified=False))]
    assert summaries(runs)[0].verified == "WRONG"


def test_latencies_are_compared_by_their_medians_and_the_lower_is_the_better(script: Path) -> None:
    ours = contender(script, OURS, "a", "W3")
    slow, quick = contender(script, "x", "slow", "W3"), contender(script, "x", "quick", "W3")
    runs = [
        Run(ours, 0, outcome(5000, 2.0)),
        Run(slow, 0, outcome(5001, 100.0)),
        Run(quick, 0, outcome(5000, 50.0)),
    ]
    found = summaries(runs)
    assert [summary.ratio for summary in found] == [1, 50, 25]
    assert best_settings(found) == {ours, quick}


def test_a_peer_is_missing_when_a_program_it_needs_is(tmp_path: Path) -> None:
    wanted = Environment("x", "x", ("x==1",), ("no-such-program",))
    assert prepare(wanted, tmp_path, True) == Missing("it needs 'no-such-program' on the path")


def test_a_peer_is_missing_when_it_may_not_be_installed(tmp_path: Path) -> None:
    found = prepare(Environment("x", "x", ("x==1",)), tmp_path, False)
    assert isinstance(found, Missing)
    assert "--no-install" in found.reason


def test_every_contender_has_an_environment_and_ours_leads_every_workload() -> None:
    everyone = contenders()
    assert {one.environment for one in everyone} <= ENVIRONMENTS.keys()
    for workload in WORKLOADS:
        assert next(one for one in everyone if one.workload == workload).system == OURS


def test_an_unknown_system_is_refused_by_name() -> None:
    with pytest.raises(SystemExit, match="no system is called storm"):
        command.main(["--systems", "storm", "--no-install"])


def test_records_do_not_depend_on_the_batch_they_arrive_in() -> None:
    whole = workloads.orders(0, 1000).to_pylist()
    parts = [workloads.orders(first, 250).to_pylist() for first in range(0, 1000, 250)]
    assert [row for part in parts for row in part] == whole


def test_the_references_are_what_a_plain_loop_finds() -> None:
    totals: dict[int, int] = {}
    for row in workloads.orders(0, 5000).to_pylist():
        totals[row["key"]] = totals.get(row["key"], 0) + row["amount"]
    assert workloads.sums(5000) == totals
    words: dict[str, int] = {}
    for line in workloads.lines(0, 300).to_pylist():
        for word in line.split():
            words[word] = words.get(word, 0) + 1
    assert workloads.word_counts(300) == words


def test_records_made_in_sql_are_the_same_as_those_made_by_numpy() -> None:
    database = sqlite3.connect(":memory:")
    database.create_function("CONCAT", -1, lambda *parts: "".join(map(str, parts)))
    database.create_function("CONCAT_WS", -1, lambda between, *parts: between.join(parts))
    wanted = ", ".join(make("i") for make in (workloads.key_sql, workloads.amount_sql))
    first = 10**12
    for number, row in enumerate(workloads.orders(first, 200).to_pylist(), first):
        found = database.execute(f"SELECT {wanted} FROM (SELECT {number} AS i)").fetchone()
        assert found == (row["key"], row["amount"])
    for number, line in enumerate(workloads.lines(first, 20).to_pylist(), first):
        query = f"SELECT {workloads.line_sql('i')} FROM (SELECT {number} AS i)"
        assert database.execute(query).fetchone() == (line,)


def test_keys_are_spread_evenly() -> None:
    counts = workloads.counts(20 * workloads.KEYS)
    assert len(counts) == workloads.KEYS
    assert max(counts.values()) < 60
