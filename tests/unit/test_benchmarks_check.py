"""A check of two commits, from its words to its exit status, in a small repository of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.check import command
from benchmarks.check.noise import Interval, interval
from benchmarks.check.rounds import Pair, figures_of, order
from benchmarks.check.trees import TreeError, checked_out, uncommitted
from benchmarks.check.verdict import Verdict, rounds_for
from benchmarks.harness.machine import disturbance, machine
from benchmarks.harness.measurement import Outcome, measure

# What stands for our measurements: its figures come from the package, as those of the real one do.
OURS = """
import argparse, json, time
import mainstay
parser = argparse.ArgumentParser()
parser.add_argument("workload"); parser.add_argument("--setting"); parser.add_argument("--seconds")
asked = parser.parse_args()
if mainstay.COST is None:
    raise SystemExit("ValueError: it is broken")
cost = mainstay.COST * (1 + hash(time.perf_counter_ns()) % 1000 / 100_000)
timed = asked.workload == "W3"
print(json.dumps({
    "system": "mainstay", "setting": asked.setting, "workload": asked.workload,
    "records": int(1e12 / cost), "seconds": 1.0, "records_per_s": 1e6 / cost,
    "latency_ms": {"p50": cost, "p99": 9.0, "p99.9": 9.0} if timed else None, "verified": True,
}))
"""


def git(folder: Path, *arguments: str) -> str:
    named = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *named, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


Commit = Callable[[str], str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src" / "mainstay").mkdir(parents=True)
    (folder / "benchmarks" / "ours").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "ours" / "__init__.py").touch()
    (folder / "benchmarks" / "ours" / "__main__.py").write_text(OURS, encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(folder))
    return folder


@pytest.fixture
def commit(repository: Path) -> Commit:
    def made(cost: str) -> str:
        source = repository / "src" / "mainstay" / "__init__.py"
        source.write_text(f"COST = {cost}\n", encoding="utf-8")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--allow-empty", "--message", f"It costs {cost}.")
        return git(repository, "rev-parse", "HEAD")

    return made


def check(repository: Path, *arguments: str) -> int:
    return command.main(["--seconds", "1", *arguments], repository)


def test_a_planted_slowdown_is_found_and_named(
    repository: Path, commit: Commit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.0")
    commit("1.2")
    found = check(repository, "--base", "main~1", "--only", "W1", "--output", str(tmp_path))
    text = (tmp_path / "check.md").read_text(encoding="utf-8")
    assert found == command.SOMETHING_WORSE
    assert "worse: W1 records/s" in text.strip().splitlines()[-1]
    raw = json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert len(raw["pairs"]) == rounds_for(3)
    assert text in capsys.readouterr().out


def test_a_quicker_head_and_an_equal_one_are_no_failure(
    repository: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.2")
    commit("1.0")
    commit("1.0")
    assert check(repository, "--base", "main~2", "--head", "main~1") == command.NOTHING_WORSE
    assert "better: W1 records/s" in capsys.readouterr().out
    assert check(repository, "--base", "main~1") == command.NOTHING_WORSE
    assert "W1 records/s" not in capsys.readouterr().out.strip().splitlines()[-1]


def test_latencies_are_checked_in_place_of_a_rate_that_is_given(
    repository: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.0")
    commit("1.5")
    assert check(repository, "--only", "W3", "--base", "main~1") == command.SOMETHING_WORSE
    said = capsys.readouterr().out.strip()
    assert "worse: W3" in said.splitlines()[-1]
    assert "W3 p50 ms" in said.splitlines()[-1]
    assert "records/s" not in said.partition("## Figures")[2]


def test_a_commit_that_does_not_run_is_not_measured_and_says_why(
    repository: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.0")
    commit("None")
    assert check(repository, "--rounds", "1") == command.NOT_MEASURED
    assert "head: exit code 1: ValueError: it is broken" in capsys.readouterr().out


def test_an_unknown_commit_is_named(
    repository: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.0")
    assert check(repository, "--base", "nowhere") == command.NOT_MEASURED
    assert "there is no commit 'nowhere' here" in capsys.readouterr().err


def test_no_tree_is_left_behind_whatever_happens(
    repository: Path, commit: Commit, tmp_path: Path
) -> None:
    commit("1.0")
    names = {"base": "main", "head": "main"}

    def interrupted() -> None:
        with checked_out(repository, names, tmp_path) as trees:
            assert [tree.path.is_dir() for tree in trees] == [True, True]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert git(repository, "worktree", "list").count("\n") == 0
    with pytest.raises(TreeError), checked_out(repository, {**names, "x": "no"}, tmp_path):
        pass
    assert git(repository, "worktree", "list").count("\n") == 0


def test_a_tree_is_what_its_interpreter_imports(
    repository: Path, commit: Commit, tmp_path: Path
) -> None:
    commit("7")
    with checked_out(repository, {"base": "main"}, tmp_path) as [tree]:
        asked = [sys.executable, "-c", "import mainstay; print(mainstay.COST)"]
        found = subprocess.run(
            asked, cwd=tree.path, env=tree.environ(), capture_output=True, text=True
        )
    assert found.stdout.strip() == "7"


def test_a_commit_without_the_package_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "note").write_text("nothing", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "No package yet.")
    with pytest.raises(TreeError), checked_out(repository, {"base": "main"}, tmp_path):
        pass


def test_changes_that_are_not_committed_are_noticed(repository: Path, commit: Commit) -> None:
    commit("1.0")
    assert not uncommitted(repository)
    (repository / "src" / "mainstay" / "__init__.py").write_text("COST = 2\n", encoding="utf-8")
    assert uncommitted(repository)


def test_what_measures_differently_is_said(
    repository: Path, commit: Commit, capsys: pytest.CaptureFixture[str]
) -> None:
    commit("1.0")
    main = repository / "benchmarks" / "ours" / "__main__.py"
    main.write_text(OURS + "\n# changed\n", encoding="utf-8")
    commit("1.0")
    check(repository, "--rounds", "1")
    assert "may be this: benchmarks/ours/__main__.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ratio", "is_better_high", "word"),
    [
        (Interval(1.1, 1.2, 1.3), False, "worse"),
        (Interval(1.1, 1.2, 1.3), True, "better"),
        (Interval(0.7, 0.8, 0.9), True, "worse"),
        (Interval(1.01, 1.02, 1.03), False, "no change"),
        (Interval(0.95, 1.02, 1.05), False, "no change"),
        (Interval(0.8, 1.2, 1.5), False, "too noisy"),
        (Interval(0.0, 1.2, float("inf")), False, "too noisy"),
    ],
)
def test_the_word_for_an_interval(ratio: Interval, is_better_high: bool, word: str) -> None:
    assert Verdict(ratio, is_better_high, 12).word == word


def test_an_interval_is_that_of_the_printed_tables() -> None:
    # n = 10 and a two-sided doubt of 5 %: the tables give a critical rank sum of 8, so the bounds
    # are the ninth mean of pairs from each end.
    ratios = [2.0**number for number in range(10)]
    means = sorted((a + b) / 2 for a in range(10) for b in range(a, 10))
    found = interval(ratios, 0.05)
    assert found.low == pytest.approx(2.0 ** means[8])
    assert found.high == pytest.approx(2.0 ** means[-9])


def test_each_commit_is_first_in_every_other_round() -> None:
    assert [order(number)[0] for number in range(4)] == ["base", "head", "base", "head"]


def outcome(records: int = 1000, **others: Any) -> Outcome:
    answer = {"records": records, "records_per_s": records / 2, "verified": True}
    return replace(Outcome(answer, "", 2**20, 4.0, 3.0, 2.0), **others)


def test_cpu_time_is_that_of_the_window_at_both_commits_or_at_neither() -> None:
    both = Pair("W1", 0, outcome(), outcome())
    assert figures_of([both])["W1 CPU µs a record"] == [(2000.0, 2000.0)]
    old = Pair("W1", 1, outcome(window_cpu_s=None), outcome())
    assert figures_of([both, old])["W1 CPU µs a record"] == [(4000.0, 4000.0)] * 2


def test_a_wrong_result_is_a_failure_of_its_side() -> None:
    wrong = outcome()
    wrong.answer["verified"] = False  # type: ignore[index]
    assert Pair("W1", 0, outcome(), wrong).failures == ["head: its result is WRONG"]


def test_an_unknown_workload_is_refused_with_those_that_exist() -> None:
    with pytest.raises(SystemExit, match="W9 cannot be checked; there are W1, W2, W3, W6"):
        command.main(["--only", "W1,W9"])


def test_the_machine_says_what_it_is() -> None:
    found = machine()
    assert found.cores >= 1
    assert found.memory_gb > 0
    assert str(found.cores) in str(found)
    assert found.kernel in str(found)


def test_a_busy_machine_is_said_to_be_busy() -> None:
    assert "The machine was quiet" in disturbance([0.0, 0.1], 0.1, 2.0)
    said = disturbance([0.0, 0.5, 0.3], 4.0, 2.0)
    assert "busy" in said
    assert "2 of 3 runs" in said
    assert "50%" in said


@pytest.fixture
def a_neighbour() -> Iterator[None]:
    """A process that keeps a core busy and does not belong to what is measured."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def test_what_a_neighbour_takes_is_not_the_systems_but_is_noticed(
    a_neighbour: None, tmp_path: Path
) -> None:
    idle = [sys.executable, "-c", "import time; time.sleep(1)"]
    found = measure(idle, 60, tmp_path)
    assert found.others_share > 0.05
    assert found.cpu_s < found.wall_s


def test_cpu_time_of_a_window_is_a_part_of_that_of_the_run(tmp_path: Path) -> None:
    program = """
import json, time
began = time.time()
end = time.process_time() + 0.5
while time.process_time() < end: pass
middle = time.time()
time.sleep(0.5)
print(json.dumps({"system": "x", "setting": "x", "workload": "W1", "records": 1,
    "seconds": time.time() - middle, "began_at": middle, "records_per_s": 1.0}))
"""
    found = measure([sys.executable, "-c", program], 60, tmp_path)
    assert found.window_cpu_s is not None
    assert found.window_cpu_s < found.cpu_s
